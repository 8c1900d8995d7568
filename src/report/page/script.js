// Values at the pointer or the arrow keys, and curves that a legend hides. The page is whole without it.
"use strict";
(() => {
  const NUMBER = 0, STEP = 1, BYTES = 2, SECONDS = 3, SHARE = 4;
  const digits = (value, count) => Number(value.toPrecision(count)).toString();
  const grouped = value => value.toLocaleString("en-US", {maximumFractionDigits: 0});
  function shown(value, quantity) {
    const size = Math.abs(value);
    if (quantity === STEP) return grouped(value);
    if (quantity === SHARE) return (value * 100).toFixed(1) + " %";
    if (quantity === BYTES) {
      const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
      let unit = 0;
      while (value >= 1023.95 && unit + 1 < units.length) { value /= 1024; ++unit; }
      return value.toFixed(unit ? 1 : 0) + " " + units[unit];
    }
    if (quantity === SECONDS) {
      if (size >= 120) return Math.floor(value / 60) + " min " + Math.round(value % 60) + " s";
      if (value === 0) return "0 s";
      return size >= 1 ? digits(value, 3) + " s" : size >= 1e-3 ? digits(value * 1e3, 3) + " ms" : digits(value * 1e6, 3) + " µs";
    }
    return size >= 1000 ? grouped(value) : digits(value, 5);
  }
  const numbers = text => text.split(" ").map(Number);

  function curves(svg) {
    return [...svg.querySelectorAll("[data-p]")].map(node => {
      const flat = numbers(node.dataset.p);
      const points = [];
      for (let i = 0; i + 1 < flat.length; i += 2) points.push([flat[i], flat[i + 1]]);
      return {node, name: node.dataset.n, points};
    });
  }
  // The point nearest to x of points that are sorted by x.
  function nearest(points, x) {
    let low = 0, high = points.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (points[middle][0] < x) low = middle; else high = middle;
    }
    return Math.abs(points[low][0] - x) <= Math.abs(points[high][0] - x) ? points[low] : points[high];
  }

  function follow(svg) {
    const all = curves(svg);
    if (!all.length || !svg.dataset.x) return;
    const [from, to, left, right] = numbers(svg.dataset.x);
    const [top, bottom] = numbers(svg.dataset.y);
    const quantity = Number(svg.dataset.q), across = Number(svg.dataset.xq);
    const read = svg.parentNode.querySelector(".read");
    const cursor = document.createElementNS("http://www.w3.org/2000/svg", "path");
    cursor.setAttribute("class", "cursor");
    let at = null;
    const place = x => left + (x - from) / (to - from) * (right - left);
    function show(x) {
      const visible = all.filter(curve => curve.node.style.display !== "none");
      if (!visible.length) return hide();
      at = nearest(visible.reduce((a, b) => a.points.length >= b.points.length ? a : b).points, x)[0];
      cursor.setAttribute("d", `M${place(at)} ${top}V${bottom}`);
      svg.append(cursor);
      read.textContent = "";
      const line = (name, value, strong) => {
        const row = document.createElement("div");
        const label = document.createElement(strong ? "b" : "span");
        label.textContent = name + " " + value;
        row.append(label);
        read.append(row);
      };
      line(svg.dataset.xn, shown(at, across), true);
      for (const curve of visible) {
        const [where, value] = nearest(curve.points, at);
        if (Math.abs(place(where) - place(at)) < 12) line(curve.name, shown(value, quantity));
      }
      read.classList.add("on");
      read.style.right = place(at) > (left + right) / 2 ? "auto" : "0";
      read.style.left = place(at) > (left + right) / 2 ? (left / 6) + "%" : "auto";
    }
    function hide() {
      cursor.remove();
      read.classList.remove("on");
    }
    svg.addEventListener("pointermove", event => {
      const box = svg.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
      if (x < left - 8 || x > right + 8) return hide();
      show(from + (x - left) / (right - left) * (to - from));
    });
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("blur", hide);
    svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) show(to); });
    svg.addEventListener("keydown", event => {
      const step = (event.shiftKey ? .1 : .01) * (to - from) * {ArrowLeft: -1, ArrowRight: 1}[event.key];
      if (event.key === "Home") show(from);
      else if (event.key === "End") show(to);
      else if (event.key === "Escape") hide();
      else if (step) {
        const points = all[0].points, before = at ?? to;
        let next = Math.min(to, Math.max(from, before + step));
        // At least to the next point.
        const longest = all.reduce((a, b) => a.points.length >= b.points.length ? a : b).points;
        if (nearest(longest, next)[0] === before) {
          const others = longest.filter(point => step > 0 ? point[0] > before : point[0] < before);
          if (others.length) next = step > 0 ? others[0][0] : others[others.length - 1][0];
        }
        show(next);
      } else return;
      event.preventDefault();
    });
  }

  function choose(figure) {
    for (const item of figure.querySelectorAll(".legend li")) {
      const nodes = figure.querySelectorAll(`.plot [data-key="${item.dataset.key}"]`);
      if (!nodes.length || figure.querySelector(".plot .area")) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.append(...item.childNodes);
      item.append(button);
      button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(on));
        for (const node of nodes) node.style.display = on ? "" : "none";
      });
    }
  }

  for (const svg of document.querySelectorAll("figure.chart .plot svg")) follow(svg);
  for (const figure of document.querySelectorAll("figure.chart")) choose(figure);
  // A printed page shows its tables of facts, not those of curves.
  addEventListener("beforeprint", () => document.querySelectorAll("details.wide").forEach(node => { node.open = true; }));
})();
