// Shows an error in place of a view that fails, and keeps the rest of the page.
import { Component, type ComponentChildren } from "preact";
import { HealthIcon } from "../parts/health";

interface Props {
  children: ComponentChildren;
}

export class Boundary extends Component<Props, { error: Error | null }> {
  override state = { error: null as Error | null };

  static override getDerivedStateFromError(error: unknown): { error: Error } {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }

  override componentDidCatch(error: unknown): void {
    console.error(error);
  }

  override render() {
    const { error } = this.state;
    return error ? (
      <Broken error={error} retry={() => this.setState({ error: null })} />
    ) : (
      this.props.children
    );
  }
}

export function Broken({ error, retry }: { error: Error; retry: () => void }) {
  return (
    <div class="note note-critical" role="alert">
      <HealthIcon tone="critical" />
      <div class="note-text">
        <strong>This view failed to load</strong>
        <div>
          <code>{error.message}</code>
        </div>
        <div>If the fleet was updated after this page was opened, reload the page.</div>
      </div>
      <button type="button" onClick={retry}>
        Try again
      </button>
      <button type="button" onClick={() => location.reload()}>
        Reload
      </button>
    </div>
  );
}
