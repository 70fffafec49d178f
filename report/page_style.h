// SPDX-License-Identifier: MIT
//
// The page's style, and its hash for the page's content security policy: a browser ignores a style
// that has another. tests/report/report_test compares them.

#ifndef TTQ_REPORT_PAGE_STYLE_H_
#define TTQ_REPORT_PAGE_STYLE_H_

namespace ttq {

inline constexpr char kPageStyleHash[] = "sha256-yERnJVq4Ca1r97Ni315zDZrCnv+Ee75JhYMTaS0AgKw=";

// clang-format off
inline constexpr char kPageStyle[] =
R"css(:root{color-scheme:light dark;--ink:#1b1f24;--dim:#57606a;--paper:#fff;--card:#f6f8fa;--rule:#d0d7de;--bad:#b3261e;--badpaper:#fdecea;--mark:#fff3c4;--link:#0550ae}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--dim:#9ea7b3;--paper:#0d1117;--card:#161b22;--rule:#3d444d;--bad:#ff9a90;--badpaper:#3a1512;--mark:#463800;--link:#79b8ff}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:72rem;padding:1.5rem 1rem 4rem;background:var(--paper);color:var(--ink);font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.3;margin:0 0 .5rem;color:var(--bad)}
h2{font-size:1.15rem;margin:2.25rem 0 .5rem;border-bottom:1px solid var(--rule);padding-bottom:.2rem}
h3{font-size:1rem;margin:1rem 0 .25rem}
p{margin:.35rem 0}
a{color:var(--link)}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:.25rem 1rem;padding:0;margin:.75rem 0}
code,pre,.v{font:.875rem/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre{margin:.5rem 0;padding:.5rem 0;background:var(--card);border:1px solid var(--rule);border-radius:4px;overflow-x:auto;tab-size:4;overflow-wrap:normal}
pre span{display:block;padding:0 .75rem;min-width:max-content}
pre .here{background:var(--mark);font-weight:600}
pre .n{display:inline;padding:0;color:var(--dim)}
.dim{color:var(--dim)}
.card{border:1px solid var(--rule);border-left:4px solid var(--link);border-radius:4px;padding:.5rem .75rem;margin:.75rem 0}
.card.last{border-left-color:var(--bad)}
.ask{margin:.75rem 0;font-size:.875rem;color:var(--dim)}
.ask code{color:var(--ink);background:var(--card);border:1px solid var(--rule);border-radius:4px;padding:.15rem .4rem;user-select:all}
.warn{border-left:4px solid var(--bad);background:var(--badpaper);padding:.4rem .75rem;margin:.5rem 0}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.875rem;margin:.5rem 0}
th,td{text-align:left;vertical-align:top;padding:.2rem .75rem .2rem 0;border-bottom:1px solid var(--rule)}
th{font-weight:600}
td.v{overflow-wrap:anywhere;min-width:8ch}
tr.bad td,tr.bad th{color:var(--bad);font-weight:600}
details{margin:.3rem 0}
summary{cursor:pointer;padding:.15rem 0}
details>*:not(summary){margin-left:1.25rem}
dl{display:grid;grid-template-columns:minmax(7rem,max-content) 1fr;gap:.15rem 1rem;margin:.5rem 0}
dt{color:var(--dim)}
dd{margin:0}
svg{display:block;width:100%;height:auto;max-width:60rem;margin:.5rem 0;color:var(--ink)}
svg text{fill:currentColor;font:12px system-ui,sans-serif}
svg .rule{stroke:var(--dim)}
svg .line{stroke:var(--link);fill:none;stroke-width:2}
svg .block{fill:var(--card);stroke:var(--dim)}
svg .bad{fill:var(--bad);stroke:var(--bad)}
svg .dot{fill:var(--link)}
:focus-visible{outline:3px solid var(--link);outline-offset:2px}
@media print{body{max-width:none;padding:0;font-size:10pt}nav,.ask{display:none}h2{break-after:avoid}.card,svg,tr{break-inside:avoid}pre{white-space:pre-wrap;overflow:visible}pre span{min-width:0}}
)css";
// clang-format on

}  // namespace ttq

#endif  // TTQ_REPORT_PAGE_STYLE_H_
