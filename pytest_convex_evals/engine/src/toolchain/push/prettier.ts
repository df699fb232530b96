/** Prettier for one CLI: most generated files are the same in all projects, and are formatted once. */

interface Prettier {
  format: (text: string, options?: unknown) => Promise<string>;
}

const MOST = 500;

export function loadPrettier(real: NodeJS.Require): Prettier {
  const prettier = real("prettier") as Prettier;
  const known = new Map<string, string>();
  const format = async (text: string, options?: unknown): Promise<string> => {
    const key = `${JSON.stringify(options)}\n${text}`;
    const found = known.get(key);
    if (found !== undefined) return found;
    const formatted = await prettier.format(text, options);
    if (known.size >= MOST) known.clear();
    known.set(key, formatted);
    return formatted;
  };
  return { ...prettier, format };
}
