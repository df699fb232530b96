import { useConvex } from "convex/react";
import { useEffect, useState } from "react";
import { api } from "../convex/_generated/api";
import type { Doc } from "../convex/_generated/dataModel";

export default function App() {
  const convex = useConvex();
  const [notices, setNotices] = useState<Doc<"notices">[]>();

  useEffect(() => {
    const ask = () => void convex.query(api.notices.list, {}).then(setNotices);
    ask();
    const timer = setInterval(ask, 1000);
    return () => clearInterval(timer);
  }, [convex]);

  if (notices === undefined) return <p>Loading notices</p>;
  if (notices.length === 0) return <p>The board is empty</p>;
  return (
    <ul>
      {notices.map((notice) => (
        <li key={notice._id}>
          {notice.title} by {notice.author}
        </li>
      ))}
    </ul>
  );
}
