"""The style sheet of a benchmark's page."""

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fcfbf9; --ink: #1f2328; --soft: #5b6470; --line: #dcd8d0; --card: #ffffff;
  --ours: #c2410c; --reference: #1d4ed8; --peer: #64748b; --good: #15803d; --bad: #b91c1c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #15171b; --ink: #e6e4df; --soft: #9aa3ad; --line: #343a42; --card: #1d2026;
    --ours: #fb923c; --reference: #7aa7ff; --peer: #94a3b8; --good: #4ade80; --bad: #f87171;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
main { max-width: 1280px; margin: 0 auto; padding: 24px 16px 48px; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 8px; }
h2 { font-size: 1.2rem; margin: 36px 0 8px; }
h3 { font-size: 1rem; margin: 20px 0 8px; }
p { margin: 0 0 12px; max-width: 70ch; }
.note { color: var(--soft); font-size: .85rem; margin-top: 8px; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; background: var(--card); }
th, td { padding: 6px 8px; text-align: right; white-space: nowrap; }
td { font-variant-numeric: tabular-nums; }
thead th { color: var(--soft); font-weight: 600; border-bottom: 1px solid var(--line); }
tbody tr + tr > * { border-top: 1px solid var(--line); }
tr > th:first-child {
  text-align: left; position: sticky; left: 0; background: var(--card);
  border-right: 1px solid var(--line);
}
tbody th { font-weight: 500; }
tr.ours th { color: var(--ours); font-weight: 700; }
tr.reference th { color: var(--reference); }
.text { text-align: left; color: var(--soft); }
td.good { color: var(--good); }
td.bad { color: var(--bad); font-weight: 700; }
#problems li { overflow-wrap: anywhere; }
#problems strong { color: var(--bad); }
.charts {
  display: grid; gap: 16px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr));
}
figure { margin: 0; }
.charts figure {
  background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 4px;
}
svg { display: block; width: 100%; height: auto; max-height: 480px; }
svg text { font-size: 11px; fill: var(--soft); }
svg .axes line { stroke: var(--line); stroke-width: 1; }
svg .ours { --shade: var(--ours); }
svg .reference { --shade: var(--reference); }
svg .peer { --shade: var(--peer); }
svg circle, svg rect { fill: var(--shade); }
svg .ours text, svg .reference text { fill: var(--shade); font-weight: 600; }
svg .area { fill: var(--shade); fill-opacity: .18; stroke: var(--shade); stroke-width: 1.5; }
.scale { display: flex; align-items: center; gap: 8px; font-size: .85rem; color: var(--soft); }
.scale span { white-space: nowrap; }
.scale img { flex: 0 1 320px; min-width: 0; height: 12px; border-radius: 3px; }
.cards {
  display: grid; gap: 16px; grid-template-columns: repeat(auto-fill, minmax(min(100%, 250px), 1fr));
}
.card {
  background: var(--card); border: 1px solid var(--line); border-radius: 8px; overflow: hidden;
}
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 2px; align-items: start; }
.pair img { display: block; width: 100%; height: auto; }
.pair img.small { image-rendering: pixelated; }
.nothing { margin: 0; padding: 12px; color: var(--soft); font-size: .85rem; }
figcaption { padding: 8px 12px 10px; font-size: .85rem; overflow-wrap: anywhere; }
figcaption span { white-space: nowrap; font-weight: 600; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 16px; font-size: .9rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 600px) {
  h1 { font-size: 1.4rem; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: 8px; }
}
"""
