import { useState } from "react";

export default function Form() {
  const [name, setName] = useState("");
  const [size, setSize] = useState("small");
  const [sent, setSent] = useState<string[]>([]);
  const [agreed, setAgreed] = useState(false);

  const send = () => setSent([...sent, `${name} wants a ${size} one`]);
  return (
    <main>
      <h1>Orders</h1>
      <p hidden>a secret</p>
      <p style={{ display: "none" }}>another secret</p>
      <label>
        Name <input value={name} onChange={(event) => setName(event.target.value)} onKeyDown={(event) => event.key === "Enter" && send()} />
      </label>
      <label htmlFor="size">Size</label>
      <select id="size" value={size} onChange={(event) => setSize(event.target.value)}>
        <option value="small">Small</option>
        <option value="big">Big</option>
      </select>
      <label>
        <input type="checkbox" checked={agreed} onChange={() => setAgreed(!agreed)} /> I agree
      </label>
      <button disabled={!agreed} onClick={send}>
        Order
      </button>
      <button aria-label="Start again" onClick={() => setSent([])}>
        x
      </button>
      <ol>
        {sent.map((line, at) => (
          <li key={at}>
            <b>{line.split(" ")[0]}</b> {line.split(" ").slice(1).join(" ")}
          </li>
        ))}
      </ol>
    </main>
  );
}
