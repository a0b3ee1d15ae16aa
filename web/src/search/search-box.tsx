// The search box of the header: a combobox with a list of results.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Icon } from "../app/icons";
import { SEARCH_FIELD } from "../app/keyboard";
import { go } from "../app/location";
import { linkTo } from "../app/routes";
import { plural } from "../app/units";
import { Health } from "../parts/health";
import { moveSelection, type Result, type ResultGroup } from "./results";
import { useSearch } from "./use-search";
import "./search-box.css";

export function SearchBox() {
  const [text, setText] = useState("");
  const [open, setOpen] = useState(false);
  const [chosenKey, setChosenKey] = useState<string | null>(null); // kept across responses that contain it
  const box = useRef<HTMLElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const list = useId();
  const { groups, of, problem } = useSearch(text);
  const results = groups.flatMap((group) => group.results);
  const chosen = results.findIndex(({ key }) => key === chosenKey);
  const shown = open && text.trim() !== "" && of !== "";

  const leave = (href: string) => {
    setOpen(false);
    setText("");
    setChosenKey(null);
    field.current?.blur();
    go(href);
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      setOpen(true);
      setChosenKey(
        results[moveSelection(chosen, event.key === "ArrowDown" ? 1 : -1, results.length)]?.key ?? null,
      );
    } else if (event.key === "Enter" && text.trim() !== "") {
      event.preventDefault();
      leave(results[chosen]?.href ?? linkTo("devices", {}, { q: text.trim() }));
    } else if (event.key === "Escape") {
      if (shown || text !== "") event.preventDefault();
      if (shown) setOpen(false);
      else if (text !== "") setText("");
      else field.current?.blur();
    }
  };
  const left = (event: FocusEvent) => {
    if (!box.current?.contains(event.relatedTarget as Node | null)) setOpen(false);
  };

  return (
    <search ref={box} class="search" onFocusOut={left}>
      <Icon name="search" />
      <input
        ref={field}
        id={SEARCH_FIELD}
        type="text"
        role="combobox"
        aria-label="Search nodes, devices, pods, namespaces"
        aria-expanded={shown}
        aria-controls={list}
        aria-autocomplete="list"
        aria-activedescendant={shown && chosen >= 0 ? `${list}-${chosen}` : undefined}
        aria-keyshortcuts="/"
        placeholder="Search"
        autocomplete="off"
        spellcheck={false}
        enterkeyhint="search"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setChosenKey(null);
          setOpen(true);
        }}
        onFocus={() => setOpen(true)}
        onKeyDown={pressed}
      />
      {text === "" ? (
        <span class="search-key" aria-hidden="true">
          <kbd>/</kbd>
        </span>
      ) : null}
      <div class={`search-list${shown ? "" : " search-closed"}`}>
        <div id={list} role="listbox" aria-label="Results">
          {shown ? <Groups groups={groups} chosen={chosen} id={list} choose={leave} /> : null}
        </div>
        {shown && problem ? <p class="search-word health-critical">{problem.title}</p> : null}
        {shown && !problem && results.length === 0 ? <p class="search-word">No results for “{of}”.</p> : null}
      </div>
      <span class="visually-hidden" role="status">
        {shown ? plural(results.length, "result") : ""}
      </span>
    </search>
  );
}

interface GroupsProps {
  groups: readonly ResultGroup[];
  chosen: number;
  id: string;
  choose: (href: string) => void;
}

function Groups({ groups, chosen, id, choose }: GroupsProps) {
  let place = 0;
  return (
    <>
      {groups.map((group) => (
        // biome-ignore lint/a11y/useSemanticElements: a group of options in a listbox is not a fieldset
        <div key={group.title} role="group" aria-labelledby={`${id}-${group.title}`}>
          <div id={`${id}-${group.title}`} class="search-title" role="presentation">
            {group.title}
          </div>
          {group.results.map((result) => {
            const own = place++;
            return (
              <Option
                key={result.key}
                id={`${id}-${own}`}
                result={result}
                chosen={own === chosen}
                choose={choose}
              />
            );
          })}
        </div>
      ))}
    </>
  );
}

interface OptionProps {
  id: string;
  result: Result;
  chosen: boolean;
  choose: (href: string) => void;
}

function Option({ id, result, chosen, choose }: OptionProps) {
  const element = useRef<HTMLAnchorElement>(null);
  useEffect(() => {
    if (chosen) element.current?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  return (
    // Also a link, so that a middle click opens a new tab. The keyboard focus stays in the field.
    <a
      ref={element}
      id={id}
      class={`search-option${chosen ? " search-chosen" : ""}${result.key.startsWith("all:") ? " search-all" : ""}`}
      role="option"
      aria-selected={chosen}
      tabIndex={-1}
      href={result.href}
      onClick={(event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        choose(result.href);
      }}
    >
      <span class="search-name">{result.title}</span>
      {result.health ? <Health state={result.health} /> : null}
      <span class="search-detail">{result.detail}</span>
    </a>
  );
}
