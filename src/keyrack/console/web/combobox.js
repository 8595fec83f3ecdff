// A search-as-you-type ARIA combobox. [data-combobox="address"] contains a <select>, which keeps the choice and stays without this script.
// The address answers ?q= with {"options": [{value, label, detail, chosen}], "total"}, at most 20 options; the input shows `chosen`.
// data-with: names of fields of the form that are sent along.
import { announce } from "./announce.js";
import { visible } from "./text.js";
import { whenever } from "./arrivals.js";

const PAUSE = 150; // ms without a key before the request
let made = 0;

class Combobox {
  constructor(holder) {
    this.holder = holder;
    this.select = holder.querySelector("select");
    this.input = document.createElement("input");
    this.list = document.createElement("ul");
    this.note = document.createElement("p");
    this.options = [];
    this.active = -1;
    this.build();
    this.listen();
  }

  build() {
    const { select, input, list, note, holder } = this;
    const number = ++made;
    holder.querySelector("[data-without-script]")?.remove();
    list.id = `options-${number}`;
    list.hidden = true;
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-label", holder.dataset.suggestions);
    note.className = "combobox-note";
    note.hidden = true;
    input.id = select.id;
    select.id = `${select.id}-chosen`;
    input.className = "input";
    input.type = "text";
    input.autocomplete = "off";
    input.placeholder = holder.dataset.empty ?? "";
    input.spellcheck = false;
    for (const name of ["required", "disabled"]) input[name] = select[name];
    for (const name of ["aria-describedby", "aria-invalid"]) if (select.hasAttribute(name)) input.setAttribute(name, select.getAttribute(name));
    input.setAttribute("role", "combobox");
    input.setAttribute("aria-autocomplete", "list");
    input.setAttribute("aria-expanded", "false");
    input.setAttribute("aria-controls", list.id);
    select.required = false;
    select.hidden = true;
    this.show();
    holder.append(input, list, note);
  }

  listen() {
    const { input, list, select } = this;
    input.addEventListener("input", () => this.typed());
    input.addEventListener("click", () => this.search(this.fresh() ? "" : input.value));
    input.addEventListener("keydown", (event) => this.key(event));
    input.addEventListener("blur", () => this.leave());
    list.addEventListener("pointerdown", (event) => event.preventDefault());
    list.addEventListener("click", (event) => {
      const option = event.target.closest("[role=option]");
      if (option) this.choose([...list.children].indexOf(option));
    });
    select.addEventListener("change", () => this.show());
  }

  /** Whether the input still shows the choice: a click then shows all options. */
  fresh() {
    return this.input.value === (this.select.value && this.select.selectedOptions[0].textContent);
  }

  show() {
    this.input.value = this.select.value ? this.select.selectedOptions[0].textContent : "";
    this.input.setCustomValidity("");
  }

  typed() {
    this.mark(-1);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.search(this.input.value), PAUSE);
  }

  async search(text) {
    clearTimeout(this.timer);
    this.asked?.abort();
    const asked = (this.asked = new AbortController());
    const address = new URL(this.holder.dataset.combobox, location.href);
    address.searchParams.set("q", text.trim());
    const filled = new FormData(this.select.form ?? undefined);
    for (const name of (this.holder.dataset.with ?? "").split(" ")) if (filled.has(name)) address.searchParams.set(name, filled.get(name));
    try {
      const headers = { Accept: "application/json", "Customer-ID": document.body.dataset.customer ?? "" };
      const response = await fetch(address, { headers, signal: asked.signal });
      if (!response.ok || response.redirected) throw new Error(String(response.status));
      const { options, total } = await response.json();
      const shown = options.map(({ value, label, detail, chosen }) => ({ value, label: visible(label), detail: visible(detail), chosen: visible(chosen) }));
      if (!asked.signal.aborted) this.open(shown, total, text);
    } catch {
      if (!asked.signal.aborted) this.fail();
    }
  }

  open(options, total, text) {
    const { list, input, holder } = this;
    this.options = options;
    list.replaceChildren(...options.map((option, place) => this.row(option, place)));
    list.hidden = options.length === 0;
    input.setAttribute("aria-expanded", String(options.length > 0));
    this.mark(text.trim() && options.length === 1 ? 0 : -1);
    const { none, some, more } = holder.dataset;
    const said = total === 0 ? none : total > options.length ? more.replace("{count}", options.length).replace("{total}", total) : some.replace("{count}", total);
    this.say(said, total === 0 || total > options.length);
  }

  row(option, place) {
    const row = document.createElement("li");
    row.id = `${this.list.id}-${place}`;
    row.setAttribute("role", "option");
    const label = document.createElement("bdi");
    label.textContent = option.label;
    row.append(label);
    if (option.detail) {
      const detail = document.createElement("span");
      detail.dir = "auto";
      detail.textContent = option.detail;
      row.append(" ", detail);
    }
    return row;
  }

  fail() {
    this.close();
    this.say(this.holder.dataset.failed, true);
  }

  say(text, visibly) {
    this.note.textContent = text;
    this.note.hidden = !visibly;
    announce(text);
  }

  close() {
    clearTimeout(this.timer);
    this.asked?.abort();
    this.list.hidden = true;
    this.note.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.mark(-1);
  }

  mark(place) {
    this.list.children[this.active]?.removeAttribute("aria-selected");
    this.active = place;
    const row = this.list.children[place];
    if (!row) return this.input.removeAttribute("aria-activedescendant");
    row.setAttribute("aria-selected", "true");
    row.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", row.id);
    // VoiceOver follows it poorly
    if (navigator.platform.startsWith("Mac") || navigator.platform.startsWith("iP")) announce(row.textContent);
  }

  choose(place) {
    const { value, chosen } = this.options[place];
    const known = [...this.select.options].find((option) => option.value === String(value));
    const option = known ?? new Option(chosen, value);
    option.textContent = chosen;
    if (!known) this.select.add(option);
    this.select.value = String(value);
    this.close();
    this.select.dispatchEvent(new Event("change", { bubbles: true }));
  }

  /** Discards typed text without a choice: an empty input clears the choice, other text returns to it. */
  leave() {
    const changed = this.input.value.trim() === "" && this.select.value !== "";
    if (changed) this.select.value = "";
    this.close();
    this.show();
    if (changed) this.select.dispatchEvent(new Event("change", { bubbles: true }));
  }

  key(event) {
    const opened = !this.list.hidden;
    const end = this.options.length - 1;
    const moves = {
      ArrowDown: () => this.mark(this.active >= end ? 0 : this.active + 1),
      ArrowUp: () => this.mark(this.active <= 0 ? end : this.active - 1),
      Home: () => this.mark(0),
      End: () => this.mark(end),
      Enter: () => this.active >= 0 && this.choose(this.active),
      Tab: () => moves.Enter(),
      Escape: () => this.close(),
    };
    if (event.isComposing || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (!opened && (event.key === "ArrowDown" || event.key === "ArrowUp")) this.search(this.fresh() ? "" : this.input.value);
    else if (!opened || !moves[event.key] || (this.active < 0 && ["Home", "End"].includes(event.key))) return;
    else moves[event.key]();
    if (event.key === "Tab") return;
    // Escape closes the list, not the dialog
    event.preventDefault();
    event.stopPropagation();
  }
}

whenever("[data-combobox]", (holder) => new Combobox(holder));
