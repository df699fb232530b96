import { useConvexConnectionState, useQuery } from "convex/react";
import { api } from "../convex/_generated/api";

export default function App() {
  const { isWebSocketConnected } = useConvexConnectionState();
  if (!isWebSocketConnected) return <p>Loading notices</p>;

  const notices = useQuery(api.notices.list, {});
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
