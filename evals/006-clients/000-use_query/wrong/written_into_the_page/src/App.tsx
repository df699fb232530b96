import { useEffect, useState } from "react";

const NOTICES = [
  { title: "Water off on Friday", author: "Bo" },
  { title: "Lift repaired", author: "Di" },
  { title: "Piano lessons", author: "Cy" },
  { title: "Lost cat", author: "Ada" },
];

export default function App() {
  const [loaded, setLoaded] = useState(false);

  useEffect(() => {
    const timer = setTimeout(() => setLoaded(true), 100);
    return () => clearTimeout(timer);
  }, []);

  if (!loaded) return <p>Loading notices</p>;
  return (
    <ul>
      {NOTICES.map((notice) => (
        <li key={notice.title}>
          {notice.title} by {notice.author}
        </li>
      ))}
    </ul>
  );
}
