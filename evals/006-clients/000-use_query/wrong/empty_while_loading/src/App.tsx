import { useQuery } from "convex/react";
import { api } from "../convex/_generated/api";

export default function App() {
  const notices = useQuery(api.notices.list, {}) ?? [];

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
