import items from '../../items';

// Rendered for each request, and not once when it is built.
export const dynamic = 'force-dynamic';

export default function Page() {
  return (
    <main>
      <h1>Items</h1>
      <ul>
        {items.slice(0, 20).map((item) => (
          <li key={item.id}>
            {item.name}: {item.price.toFixed(2)} ({item.tags.join(', ')})
          </li>
        ))}
      </ul>
    </main>
  );
}
