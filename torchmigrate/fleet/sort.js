"use strict";
// The heads of each table become buttons that sort its rows; without scripts the table is as it was written.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const key = (row, column) => {
    const text = row.cells[column].textContent.trim();
    if (!heads[column].classList.contains("number")) return text.toLowerCase();
    const numbers = text.replaceAll(",", "").match(/[\d.]+/g);
    return numbers ? Number(numbers.at(-1)) : -1;
  };
  heads.forEach((head, column) => {
    if (!head.textContent || head.classList.contains("fixed")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const first = head.classList.contains("number") ? "descending" : "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      const order = head.getAttribute("aria-sort") === first ? other : first;
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const rows = [...body.rows].map((row) => [key(row, column), row]);
      rows.sort(([a], [b]) => sign * (typeof a === "number" ? a - b : a.localeCompare(b)));
      body.append(...rows.map(([, row]) => row));
    });
  });
}
