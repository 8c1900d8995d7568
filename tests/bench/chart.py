"""Bars as SVG: narrow enough for a phone, and light or dark as the reader's system is."""
from xml.sax.saxutils import escape

WIDTH, MARGIN, BAR, GAP = 440, 12, 20, 5
VALUE_WIDTH = 84  # of the text behind a bar
STYLE = """  <style>
    .page { fill: #ffffff }
    text { font-family: "Segoe UI", "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; font-size: 14px; fill: #1f2328 }
    .head { font-weight: bold }
    .ours { fill: #0969da }
    .peer { fill: #8c959f }
    .range { stroke: #1f2328; stroke-width: 1.5 }
    @media (prefers-color-scheme: dark) {
      .page { fill: #0d1117 }
      text { fill: #e6edf3 }
      .ours { fill: #58a6ff }
      .peer { fill: #6e7681 }
      .range { stroke: #e6edf3 }
    }
  </style>"""


def bars(title, groups, shown):
    """groups: [(heading or None, [(label, ours?, {median, min, max})])]; `shown` turns a value into text."""
    largest = max(value["max"] for _, rows in groups for _, _, value in rows)
    scale = (WIDTH - 2 * MARGIN - VALUE_WIDTH) / largest
    lines, y = [], MARGIN + 14
    lines.append(f'  <text class="head" x="{MARGIN}" y="{y}">{escape(title)}</text>')
    y += 12
    for heading, rows in groups:
        if heading:
            y += 20
            lines.append(f'  <text class="head" x="{MARGIN}" y="{y}">{escape(heading)}</text>')
            y += 4
        for label, ours, value in rows:
            y += 16
            lines.append(f'  <text x="{MARGIN}" y="{y}">{escape(label)}</text>')
            y += 5
            end = MARGIN + value["median"] * scale
            lines.append(f'  <rect class="{"ours" if ours else "peer"}" x="{MARGIN}" y="{y}" width="{end - MARGIN:.1f}" height="{BAR}"/>')
            low, high = (MARGIN + value[name] * scale for name in ("min", "max"))
            if high - low > 1:
                lines.append(f'  <path class="range" d="M{low:.1f} {y + BAR / 2:.0f}H{high:.1f}"/>')
            lines.append(f'  <text x="{max(end, high) + 6:.1f}" y="{y + 15}">{escape(shown(value["median"]))}</text>')
            y += BAR + GAP
    height = y + MARGIN
    said = "; ".join(f"{heading + ', ' if heading else ''}{label} {shown(value['median'])}" for heading, rows in groups for label, _, value in rows)
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" '
            'aria-labelledby="title desc">', f'  <title id="title">{escape(title)}</title>', f'  <desc id="desc">{escape(said)}</desc>', STYLE,
            f'  <rect class="page" width="{WIDTH}" height="{height}" rx="6"/>']
    return "\n".join([*head, *lines, "</svg>"]) + "\n"
