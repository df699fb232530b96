export const readme = `# Judged`;
