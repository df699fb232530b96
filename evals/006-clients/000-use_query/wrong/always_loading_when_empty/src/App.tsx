import { useQuery } from "convex/react";
import { api } from "../convex/_generated/api";

export default function App() {
  const notices = useQuery(api.notices.list, {});

  if (!notices?.length) return <p>Loading notices</p>;
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
