/* Put behind a report's own script: does what a reader does, and leaves what is wrong in <body data-faults>. */
(() => {
  const faults = [], rows = () => [...$('tensors').rows], span = () => view[1] - view[0], near = (a, b) => Math.abs(a - b) < 1e-6;
  const holds = (ok, what) => { if (!ok) faults.push(what); };
  const type = word => { $('search').value = word; $('search').dispatchEvent(new Event('input')); };
  const press = key => document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  const all = D.tensors.length, shown = Math.min(all, 300), peak = Math.max(...D.columns.map(c => c.bytes.reduce((a, b) => a + b, 0)));

  holds(bytes(5) === '5 B' && bytes(1536) === '1.50 KiB' && bytes(3 * 1024 ** 3) === '3.00 GiB', 'bytes as people write them');
  holds(rows().length === shown, 'a row for each tensor');
  holds(rows()[0].cells[1].textContent === bytes(Math.max(...D.tensors.map(t => t.bytes))), 'the largest tensor first');
  const word = D.tensors[all - 1].name.slice(-4).toLowerCase(), hits = D.tensors.filter(t => (t.name + t.kind + t.maker).toLowerCase().includes(word)).length;
  type(word);
  holds(rows().length > 0 && rows().every(r => r.textContent.toLowerCase().includes(word)), 'search shows only what was looked for');
  holds($('found').textContent.startsWith(rows().length + ' of ' + all) && rows().length <= hits, 'search says how many');
  type('no such tensor');
  holds(rows().length === 0, 'search for nothing finds nothing');
  type('');
  document.querySelector('#tensor-table th[data-by=begin]').click();
  const lefts = rows().map(r => parseFloat(r.querySelector('.life i').style.left));
  holds(lefts.every((x, k) => !k || x >= lefts[k - 1]), 'a heading orders the rows');
  document.querySelector('#tensor-table th[data-by=bytes]').click();

  const g = geometry(), box = chart.getBoundingClientRect(), c = chart.getContext('2d'), r = devicePixelRatio || 1;
  const ink = (x, y) => c.getImageData(Math.round(x * r), Math.round(y * r), 1, 1).data[3];
  const tall = D.columns.find(col => col.bytes.reduce((a, b) => a + b, 0) === peak), middle = (tall.first + tall.end) / 2;
  holds(ink(g.x(middle), g.y(peak / 2)) > 0 && ink(g.x(middle), g.y(peak * 0.97)) > 0, 'the peak is drawn');
  holds(near(g.y(0) - g.y(peak), peak / most * (g.h - TOP - BOTTOM)), 'bytes are drawn to scale');
  const at = { clientX: box.left + g.x(middle), clientY: box.top + 100, bubbles: true, cancelable: true };
  chart.dispatchEvent(new PointerEvent('pointermove', at));
  holds(document.body.textContent.includes('in all: ' + bytes(peak)), 'pointing tells what is there');
  const before = span();
  chart.dispatchEvent(new WheelEvent('wheel', { ...at, deltaY: -100 }));
  holds((span() < before || D.steps <= 10) && view[0] <= middle && middle <= view[1], 'the wheel zooms to where it is');
  const zoomed = span(), from = view[0];
  press('+');
  holds(span() < zoomed || D.steps <= 10, '+ zooms in');
  press('-');
  press('ArrowLeft');
  holds(view[0] < from || from === 0, 'an arrow moves');
  $('all').click();
  const centre = { ...at, clientX: Math.round(box.left + g.x(D.steps / 2)) }, under = step_at(centre);
  chart.dispatchEvent(new WheelEvent('wheel', { ...centre, deltaY: -100 }));
  holds(Math.abs(step_at(centre) - under) < span() / 100, 'what the wheel points to stays');
  $('all').click();
  holds(view[0] === 0 && view[1] === D.steps, 'all is all');
  rows()[0].click();
  holds(chosen === D.tensors[0] && view[0] <= chosen.begin && view[1] >= chosen.end, 'a row shows its tensor');
  holds(document.querySelectorAll('#tensors tr.on').length === 1, 'and is marked');

  if (D.beside) {
    $('all').click();
    const at = parts(), where = beside.getBoundingClientRect(), pen = beside.getContext('2d');
    const mid = one => geometry().x((one.begin + one.end) / 2), inked = (x, y) => pen.getImageData(Math.round(x * r), Math.round(y * r), 1, 1).data[3] > 0;
    const points_at = (x, y) => { beside.dispatchEvent(new PointerEvent('pointermove', { clientX: where.left + x, clientY: where.top + y })); return $('tip').textContent; };
    D.beside.lanes.forEach((lane, k) => lane.bars.forEach(bar => {
      const x = mid(bar), y = at.lanes[k] + (bar.row + 0.2) * row_height(lane);
      holds(inked(x, y) && points_at(x, y).startsWith(lane.name + ': ' + bar.node), 'a bar for each step of a channel');
    }));
    D.beside.tiers.forEach((tier, k) => {
      const x = geometry().x(tier.peak_step + 0.5), y = at.tiers[k] + PANEL / 2;
      holds(!tier.peak || (inked(x, y) && points_at(x, y).endsWith('in all: ' + bytes(tier.peak))), 'a panel for each tier');
      holds(points_at(geometry().x(0.5), y).endsWith('in all: 0 B') === !inked(geometry().x(0.5), y), 'ink where something is live');
    });
    holds(D.beside.lanes.length > 0 && D.beside.tiers.length > 0, 'lanes and tiers');
  }
  const drawn = document.querySelectorAll('#curve path'), points = D.curves.reduce((n, each) => n + each.points.length, 0);
  holds(drawn.length === D.curves.filter(each => each.points.length).length, 'a line for each searcher');
  holds(document.querySelectorAll('#curve circle:not(.own)').length === points, 'a dot for each plan');
  holds(!document.querySelector('#curve') || document.querySelectorAll('#curve .own').length === (D.plan_percent === null ? 0 : 1), 'a dot for the plan of the page');
  const base = Math.max(...[...document.querySelectorAll('#curve line')].map(l => +l.getAttribute('y2')));
  holds([...document.querySelectorAll('#curve circle')].every(c => +c.getAttribute('cy') <= base + 0.01), 'every plan is within the axes');
  holds(!document.querySelector('#curve') || drawn.length > 0 || D.plan_percent !== null, 'the curve is there');

  holds([0, 512, 1024].map(b => tick(b, 512, 1024)).join() === '0.0,0.5,1.0' && tick(1024, 1024, 1024) === '1', 'numbers of an axis have the same decimals');
  holds(document.documentElement.scrollWidth <= innerWidth, 'nothing sticks out of the window');
  holds(rows().every(row => row.offsetHeight < 100), 'names are not broken to pieces');
  document.body.dataset.faults = faults.join('; ') || 'none';
})();
