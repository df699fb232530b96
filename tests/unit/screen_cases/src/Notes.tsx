import { ConvexProvider, ConvexReactClient, useMutation, useQuery } from "convex/react";
import { useState } from "react";
import { api } from "../convex/_generated/api";

export default function Notes() {
  const notes = useQuery(api.notes.list, {});
  const add = useMutation(api.notes.add);
  const [text, setText] = useState("");

  if (notes === undefined) return <p>Loading</p>;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void add({ text });
        setText("");
      }}
    >
      <p>{notes.length} notes</p>
      <ul>
        {notes.map((note, at) => (
          <li key={at}>{note}</li>
        ))}
      </ul>
      <input placeholder="Note" value={text} onChange={(event) => setText(event.target.value)} />
      <button>Add</button>
    </form>
  );
}

const client = new ConvexReactClient(import.meta.env.VITE_CONVEX_URL);

export const WithItsOwnProvider = () => (
  <ConvexProvider client={client}>
    <Notes />
  </ConvexProvider>
);
