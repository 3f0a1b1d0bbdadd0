"use strict";
// Every table is sorted by a click on a head; the one of all rows can be filtered, too. What is
// chosen stands in the address (#sort=-method&method=hscl&find=PTC), so that it can be sent.

const state = new URLSearchParams(location.hash.slice(1));
const nameOf = (head) => head.textContent.trim();
// A text is a number if it begins with one that ends there, or before a space or a sign.
const NUMBER = /^(<?)([+−-]?(?:\d[\d,]*)?(?:\.\d+)?)(?=$|[\s±%†\[(])/;
const number = (text) => {
  const [, less, digits] = text.trim().match(NUMBER) || [];
  if (!digits || !/\d/.test(digits)) return NaN;
  return parseFloat(digits.replace("−", "-").replaceAll(",", "")) - (less ? 1e-9 : 0);
};

function sort(table, column, down) {
  const body = table.tBodies[0], rows = [...body.rows];
  const texts = new Map(rows.map((row) => [row, row.cells[column].textContent.trim()]));
  const numeric = rows.some((row) => !isNaN(number(texts.get(row))));
  const words = (a, b) => a.localeCompare(b, undefined, { numeric: true });
  rows.sort((one, other) => {
    const [a, b] = [texts.get(one), texts.get(other)];
    const [x, y] = [number(a), number(b)];
    if (!numeric) return down ? words(b, a) : words(a, b);
    if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y);  // what is no number comes last
    return down ? y - x : x - y;
  });
  body.append(...rows);
  for (const head of table.tHead.rows[0].cells) head.removeAttribute("aria-sort");
  table.tHead.rows[0].cells[column].setAttribute("aria-sort", down ? "descending" : "ascending");
}

function remember(key, value) {
  if (value) state.set(key, value); else state.delete(key);
  history.replaceState(null, "", "#" + state);
}

for (const table of document.querySelectorAll("table")) {
  const main = table.parentElement.id === "rows", box = document.createElement("div");
  box.className = "wide";
  box.tabIndex = 0;
  table.replaceWith(box);
  box.append(table);
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const cells = [...table.tBodies[0].rows].map((row) => row.cells[column]);
    if (cells.every((cell) => isNaN(number(cell.textContent))))
      for (const cell of [head, ...cells]) cell.classList.add("words");
    head.scope = "col";
    if (!nameOf(head)) return;
    const name = nameOf(head), button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    const turned = (down) => {
      sort(table, column, down);
      if (main) remember("sort", (down ? "-" : "") + name);
    };
    button.addEventListener("click", () => turned(head.getAttribute("aria-sort") === "ascending"));
    const asked = main && state.get("sort");
    if (asked && asked.replace(/^-/, "") === name) turned(asked.startsWith("-"));
  });
}

const table = document.querySelector("#rows table");
if (table) {
  const heads = [...table.tHead.rows[0].cells], filters = document.querySelector(".filters");
  const fields = [];
  const shown = document.createElement("output");
  const add = (name, field) => {
    const label = document.createElement("label");
    label.append(name, field);
    filters.append(label);
    field.value = state.get(name) || "";
    field.addEventListener("input", () => { remember(name, field.value); filter(); });
  };
  const find = document.createElement("input");
  find.type = "search";
  add("find", find);
  heads.forEach((head, column) => {
    const values = [...new Set([...table.tBodies[0].rows].map((row) => row.cells[column].textContent))];
    if (values.length < 2 || values.length > 40 || values.some((text) => !isNaN(number(text)))) return;
    const select = document.createElement("select");
    select.append(new Option("all", ""), ...values.sort().map((text) => new Option(text || "–", text || "–")));
    add(nameOf(head), select);
    fields.push([column, select]);
  });
  const filter = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !(words.every((word) => text.includes(word)) &&
        fields.every(([column, field]) => !field.value || (row.cells[column].textContent || "–") === field.value));
      count += !row.hidden;
    }
    shown.textContent = `${count} of ${table.tBodies[0].rows.length} rows`;
  };
  filters.append(shown);
  filter();
}
