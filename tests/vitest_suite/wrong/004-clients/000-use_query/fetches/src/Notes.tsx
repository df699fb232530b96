export function Notes({ author }: { author: string }) {
  return <p>{author}</p>;
}
