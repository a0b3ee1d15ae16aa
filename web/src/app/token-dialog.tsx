// Asks for the token of a fleet that requires one.
import { useEffect, useRef, useState } from "preact/hooks";
import { setToken, token } from "../api/client";
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
    if (given) setToken(given);
  };
  return (
    <Dialog title="Token required" close={close}>
      {refused ? (
        <p role="alert" class="health-critical">
          The token was not accepted: it is wrong, expired or revoked.
        </p>
      ) : null}
      <p>
        This fleet requires an access token. Its administrator creates one with{" "}
        <code>accelscope fleet token create NAME</code>.
      </p>
      <p class="soft small">The token is kept until this tab is closed and sent only to this fleet.</p>
      <form class="token-form" onSubmit={submit}>
        <label class="visually-hidden" for="token-field">
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
          Continue
        </button>
      </form>
    </Dialog>
  );
}

// Shown in place of a view while there is no token.
export function NeedsToken({ ask }: { ask: () => void }) {
  return (
    <View title="Token required">
      <Empty title="This fleet requires an access token" action={{ text: "Enter token", run: ask }} />
    </View>
  );
}
