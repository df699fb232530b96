export const readme = `# Judged\n\nA project.\nIt has lines.`;
