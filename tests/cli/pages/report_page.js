/* Put behind a report's own script: does what a reader does, and leaves what is wrong in <body data-faults>. */
(() => {
  const faults = [], rows = () => [...$('tensors').rows], near = (a, b) => Math.abs(a - b) < 1.5;
  const holds = (ok, what) => { if (!ok) faults.push(what); };
  const type = word => { $('search').value = word; $('search').dispatchEvent(new Event('input')); };
  const press = key => document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  const all = D.tensors.length, shown = Math.min(all, 300);

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

  /* the chart's columns: the nodes from the first step to the last */
  const columns = [...document.querySelectorAll('#timeline a')].filter(a => (a.getAttribute('xlink:title') || '').startsWith('step '));
  const box = e => e.getBoundingClientRect(), wide = () => picture.clientWidth, button = factor => document.querySelector('[data-zoom="' + factor + '"]').click();
  holds(picture.textContent.includes('peak ' + bytes(D.peak)), 'the peak is drawn');
  holds(columns.some(a => a.getAttribute('xlink:title').split(String.fromCharCode(10)).includes(bytes(D.peak))), 'pointing tells what is there');
  const fits = wide();
  press('+');
  holds(near(wide(), 1.5 * fits), '+ zooms in');
  const seen = (timeline.scrollLeft + timeline.clientWidth / 2) / wide();
  button(1.5);
  holds(Math.abs((timeline.scrollLeft + timeline.clientWidth / 2) / wide() - seen) < 0.01 && wide() > 2 * fits, 'the middle stays');
  for (let k = 0; k < 9; k++) press('-');
  holds(near(wide(), fits), '- shows the whole step and no more');
  press('+'); button(0);
  holds(near(wide(), fits), 'all is all');
  rows()[0].click();
  const begins = box(columns[0]).left, unit = (Math.max(...columns.map(a => box(a).right)) - begins) / D.steps;
  holds(chosen === D.tensors[0] && near(box(mark).left, begins + unit * chosen.begin) && box(mark).height > 100, 'a row shows its tensor');
  holds(document.querySelectorAll('#tensors tr.on').length === 1, 'and is marked');

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
