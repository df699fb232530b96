export function texts(notes: readonly { text: string }[]): string[] {
  debugger;
  return notes.map((note) => note.text);
}
