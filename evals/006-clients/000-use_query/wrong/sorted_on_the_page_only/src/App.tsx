import { useQuery } from "convex/react";
import { api } from "../convex/_generated/api";

export default function App() {
  const notices = useQuery(api.notices.list, {});

  if (notices === undefined) return <p>Loading notices</p>;
  if (notices.length === 0) return <p>The board is empty</p>;
  return (
    <ul>
      {[...notices].sort((a, b) => a.rank - b.rank).map((notice) => (
        <li key={notice._id}>
          {notice.title} by {notice.author}
        </li>
      ))}
    </ul>
  );
}
