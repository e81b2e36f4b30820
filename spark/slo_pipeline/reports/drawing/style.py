"""The page's looks: one style sheet, light and dark, for screen and paper.

Problem: the same file is opened at night, printed for a review, and read by people who do not tell red from
green. Shape: every colour is a custom property with a light and a dark value; marks differ in shape or
pattern as well as in colour. The phases' hues are Okabe and Ito's. Never: no external address: fonts are the
system's.
"""

from typing import Final

CSS: Final = """
:root{color-scheme:light dark;
--page:#f6f7f9;--card:#fff;--ink:#14181f;--soft:#586271;--faint:#8d96a3;--line:#e3e7ec;--grid:#edf0f3;
--ok:#0072b2;--okfill:#0072b226;--bad:#c8420a;--badfill:#d55e0017;--badsoft:#fdf0e8;--good:#0b7a5b;
--goodsoft:#e8f5f0;
--warn:#8a6100;--warnsoft:#fbf2dc;--fault:#14181f0d;
--p1:#d55e00;--p2:#e69f00;--p3:#009e73;--p4:#56b4e9;--p5:#0072b2;--p6:#b96592;
--failover:#d55e00;--switchover:#56b4e9;--unexplained:#8d96a3;
--reelection:#b96592;--rollout:#0072b2;--fault-known:#e69f00;--left:#e8ecf0}
@media (prefers-color-scheme:dark){:root{
--page:#0e1116;--card:#161b22;--ink:#e8ecf1;--soft:#a3adba;--faint:#717c8a;--line:#2a313b;--grid:#222932;
--ok:#6cb6f0;--okfill:#6cb6f02b;--bad:#ff8f57;--badfill:#ff8f571c;--badsoft:#33211a;--good:#4cc9a0;
--goodsoft:#15302a;
--warn:#e6b450;--warnsoft:#322916;--fault:#ffffff0f;
--p1:#f0763a;--p2:#f0b429;--p3:#2bbd92;--p4:#7cc7f2;--p5:#3d94d6;--p6:#d58fb4;
--failover:#f0763a;--switchover:#7cc7f2;--unexplained:#8d96a3;
--reelection:#d58fb4;--rollout:#3d94d6;--fault-known:#f0b429;--left:#262d36}}
*{box-sizing:border-box}
html{scroll-behavior:smooth;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans","DejaVu Sans",
sans-serif;
font-variant-numeric:tabular-nums}
main,header,footer{max-width:1120px;margin:0 auto;padding:0 32px}
header{padding-top:26px}
.phases{margin:10px 0 4px;font-size:14px;max-width:none}.phases .key{margin-right:16px;white-space:nowrap}
h1{font-size:17px;font-weight:650;margin:0;letter-spacing:-.005em}
h2{font-size:25px;line-height:1.25;font-weight:680;letter-spacing:-.018em;margin:72px 0 6px}
h3{font-size:19px;line-height:1.3;font-weight:660;letter-spacing:-.01em;margin:0}
h4{font-size:14px;font-weight:650;margin:30px 0 2px}
p{margin:0 0 10px;max-width:78ch}
.sub{color:var(--soft);margin:0}
.note{color:var(--soft);font-size:14px;margin:2px 0 12px}
a{color:inherit;text-decoration-color:var(--faint);text-underline-offset:3px}
a:hover{text-decoration-color:currentColor}
nav{margin-top:14px;font-size:14px;color:var(--soft);display:flex;flex-wrap:wrap;gap:4px 20px;
border-bottom:1px solid var(--line);padding-bottom:14px}
nav a{text-decoration:none}nav a:hover{text-decoration:underline}
.card{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:28px 30px;margin:18px 0}
.verdict{display:flex;align-items:center;gap:20px;margin:34px 0 8px}
.verdict svg{flex:none;width:52px;height:52px}
.verdict p{font-size:40px;line-height:1.12;font-weight:720;letter-spacing:-.028em;margin:0;max-width:none}
.verdict small{display:block;font-size:17px;line-height:1.4;font-weight:400;letter-spacing:0;
color:var(--soft);margin-top:4px}
.states{padding:12px 30px 14px;margin-top:0}.states tbody tr:last-child td{border-bottom:0}
.states td{padding-top:10px;padding-bottom:10px}.states td:first-child{font-weight:620;white-space:nowrap}
.states small{white-space:nowrap}
.states .note{margin:10px 0 0}
.long{overflow-wrap:anywhere;display:inline-block;min-width:11em}small.under{display:block}
h1,h2,h3,.story,.sub,.note,.lead,.kicker span,.facts dd,.tile small{overflow-wrap:anywhere}
h3.of{margin-top:34px}.strip,.striplegend{width:240px}.strip{padding-top:4px}.striplegend{font-size:12px}
.bar-of-phases svg{display:block;width:100%;height:16px}
.lead{font-size:18px;color:var(--soft);max-width:72ch;margin:0 0 22px}
.lead b{color:var(--ink);font-weight:640}
.tiles{display:grid;grid-template-columns:repeat(4,1fr);gap:1px;background:var(--line);
border:1px solid var(--line);
border-radius:14px;overflow:hidden;margin:0 0 18px}
.tile{background:var(--card);padding:20px 22px 18px}
.tile dt{font-size:13px;color:var(--soft);margin:0}
.tile dd{margin:4px 0 0;font-size:29px;line-height:1.2;font-weight:690;letter-spacing:-.025em}
.tile dd small{display:block;font-size:13px;line-height:1.4;font-weight:400;letter-spacing:0;
color:var(--soft);
margin-top:4px}
.alarm{color:var(--bad)}.calm{color:var(--good)}.warned{color:var(--warn)}
.story{font-size:17px;line-height:1.6;max-width:76ch;margin:12px 0 16px}
.kicker{font-size:13px;color:var(--soft);margin:0 0 4px;display:flex;gap:10px;align-items:center;
flex-wrap:wrap}
.key{white-space:nowrap;margin-right:12px}
.spend td:nth-child(2){width:42%}.spend td svg{display:block;width:100%;height:auto;margin-top:3px}
.chip{display:inline-block;font-size:12px;line-height:1;font-weight:620;padding:5px 8px;border-radius:6px;
background:var(--grid);color:var(--soft);white-space:nowrap}
.chip.failover{background:var(--badsoft);color:var(--bad)}
.chip.good{background:var(--goodsoft);color:var(--good)}
.chip.warn{background:var(--warnsoft);color:var(--warn)}
.facts{display:flex;flex-wrap:wrap;gap:6px 40px;margin:16px 0 6px;padding:0}
.facts div{min-width:96px}
.facts dt{font-size:13px;color:var(--soft)}.facts dd{margin:0;font-weight:650;font-size:18px;
letter-spacing:-.01em}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14px;line-height:1.45}
th,td{text-align:left;padding:9px 14px 9px 0;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:600;color:var(--soft);font-size:13px;white-space:nowrap}
td.n,th.n{text-align:right}
tfoot td,tfoot th{border-bottom:0;font-weight:650;color:var(--ink)}
tbody tr:last-child td{border-bottom-color:var(--line)}
figure{margin:10px 0 0}
.wide svg{display:block;width:100%;height:auto}.on-narrow{display:none}
figure .scroll>svg{display:block;width:100%;min-width:760px;height:auto}
figure .on-narrow svg{display:block;width:100%;height:auto}
details{margin:6px 0 0;font-size:14px}
summary{cursor:pointer;color:var(--soft);padding:4px 0;width:max-content}
details table{margin:6px 0 10px;font-size:13px}
details td,details th{padding:5px 14px 5px 0}
footer{padding-top:56px;padding-bottom:72px;color:var(--soft);font-size:14px}
footer dl{display:grid;grid-template-columns:max-content 1fr;gap:6px 22px;max-width:92ch}
footer dt{font-weight:640;color:var(--ink)}footer dd{margin:0}
svg text{font:12.5px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans","DejaVu Sans",
sans-serif;
fill:var(--ink);font-variant-numeric:tabular-nums}
svg .t{fill:var(--soft);font-size:12px}svg .b{font-weight:650}svg .m{text-anchor:middle}
svg .e{text-anchor:end}
svg .grid{stroke:var(--grid)}svg .axis{stroke:var(--line)}svg .lane{stroke:var(--line)}
svg .fault{fill:var(--fault)}svg .faultline{stroke:var(--soft);stroke-dasharray:3 3}
svg .gap{fill:var(--badfill)}svg .gapbar{fill:var(--badsoft);stroke:var(--bad);stroke-width:1.5}
svg .ok{stroke:var(--ok);stroke-width:5;stroke-linecap:round;fill:none;opacity:.75}
svg .no{stroke:var(--bad);stroke-width:1.9;stroke-linecap:round;fill:none}
svg .step{stroke:var(--ok);stroke-width:2;fill:none;stroke-linejoin:round}svg .area{fill:var(--okfill)}
svg .mark{fill:var(--card);stroke:var(--ink);stroke-width:1.5}
svg .bar{fill:var(--ok)}svg .band{fill:var(--okfill)}svg .pace{stroke:var(--faint);stroke-dasharray:2 4;
stroke-width:1.5;fill:none}
svg .red{fill:var(--bad)}svg .halo{paint-order:stroke;stroke:var(--card);stroke-width:4px;
stroke-linejoin:round}
.p1{fill:var(--p1)}.p2{fill:var(--p2)}.p3{fill:var(--p3)}.p4{fill:var(--p4)}.p5{fill:var(--p5)}
.p6{fill:var(--p6)}
.failover-f{fill:var(--failover)}.switchover-f{fill:var(--switchover)}.unexplained-f{fill:var(--unexplained)}
.reelection-f{fill:var(--reelection)}.rollout-f{fill:var(--rollout)}.fault-f{fill:var(--fault-known)}
.left-f{fill:var(--left)}
.good-f{fill:var(--good);opacity:.55}.bad-f{fill:var(--bad)}.unknown-f{fill:var(--faint);opacity:.5}
.l1{stroke:var(--ok)}.l1{fill:none;stroke-width:2;stroke-linejoin:round}.thin{stroke-width:1;opacity:.75}
.wideband{stroke:var(--okfill);stroke-width:11}
@media (max-width:820px){main,header,footer{padding-left:18px;padding-right:18px}
.tiles{grid-template-columns:1fr 1fr}
.verdict p{font-size:30px}.card{padding:20px 16px}footer dl{grid-template-columns:1fr}}
@media screen and (max-width:640px){h2{margin-top:52px}.lead{font-size:17px}
.on-wide{display:none}.on-narrow{display:block}
.tile{padding:14px 14px 12px}.tile dd{font-size:24px}
.stack,.stack tbody,.stack tfoot,.stack tr,.stack td{display:block;width:100%}.stack thead{display:none}
.stack tr{border-bottom:1px solid var(--line);padding:10px 0}.states .stack tr:last-child{border-bottom:0}
.stack td,.spend .stack td{border:0;padding:3px 0;width:100%;min-height:0}
.stack td:empty{display:none}
.stack td[data-l]{position:relative;padding-left:138px;min-height:26px;text-align:left}
.stack td[data-l]::before{content:attr(data-l);position:absolute;left:0;width:132px;color:var(--soft);
font-size:13px;font-weight:400}
.stack td:first-child{font-weight:640}
.spend td>div{width:100%}.strip,.striplegend{width:auto;max-width:100%}}
@media print{:root{color-scheme:light;--page:#fff;--card:#fff;--ink:#000;--soft:#444;--line:#ccc;
--grid:#e6e6e6}
body{font-size:11pt}nav{display:none}.card{border:0;padding:0;margin:14px 0}h2{margin-top:34px}
figure,tr,.tiles,.verdict{break-inside:avoid}h2,h3,h4{break-after:avoid}
details::details-content{content-visibility:visible;block-size:auto}summary{list-style:none}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
"""
