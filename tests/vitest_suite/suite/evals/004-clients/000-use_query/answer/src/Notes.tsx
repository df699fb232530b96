import { useQuery } from "convex/react";
import { api } from "../convex/_generated/api";

export function Notes({ author }: { author: string }) {
  const notes = useQuery(api.notes.of, { author });
  if (notes === undefined) return <p>Loading…</p>;
  return <ul>{notes.map((note) => <li key={note._id}>{note.text}</li>)}</ul>;
}
