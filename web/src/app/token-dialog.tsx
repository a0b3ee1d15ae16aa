// A fleet that asks for a token: nothing can be shown without one.
import { useEffect, useRef, useState } from "preact/hooks";
import { token, useToken } from "../api/client";
import { Empty } from "../parts/states";
import { View } from "../parts/view";
import { Dialog } from "./dialog";

export function TokenDialog({ close }: { close: () => void }) {
  const [text, setText] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const refused = token.value !== null;
  const submit = (event: Event) => {
    event.preventDefault();
    const given = text.trim();
    if (given) useToken(given);
  };
  return (
    <Dialog title="A token is needed" close={close}>
      {refused ? (
        <p role="alert" class="health-critical">
          The token was not accepted: it is wrong, expired, or was taken back.
        </p>
      ) : null}
      <p>
        This fleet shows its data only to those who have a token. Whoever runs it makes one with{" "}
        <code>accelscope fleet token create NAME</code>.
      </p>
      <p class="soft small">It is kept until this tab is closed, and sent to this fleet only.</p>
      <form class="token-form" onSubmit={submit}>
        <label class="unseen" for="token-field">
          Token
        </label>
        <input
          ref={field}
          id="token-field"
          type="password"
          autocomplete="off"
          spellcheck={false}
          placeholder="Token"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <button type="submit" class="primary" disabled={text.trim() === ""}>
          Show the fleet
        </button>
      </form>
    </Dialog>
  );
}

// In the place of views that have nothing to show.
export function NeedsToken({ ask }: { ask: () => void }) {
  return (
    <View title="A token is needed">
      <Empty
        title="This fleet shows its data only to those who have a token"
        action={{ text: "Enter a token", run: ask }}
      />
    </View>
  );
}
