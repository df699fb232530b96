export function texts(notes: readonly { text: string }[]): string[] {
  return notes.map((note) => note.text);
}
