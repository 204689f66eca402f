// Runs once in an isolated world of each frame: the page sees nothing of it, and it writes nothing into the page.
(() => {
  if (globalThis.gantry) return;
  const refs = new Map(), ids = new WeakMap();
  const gone = new FinalizationRegistry(i => refs.delete(i));
  const doc = Math.random().toString(36).slice(2);
  let next = 1;
  const id = el => {
    let i = ids.get(el);
    if (!i) { i = next++; ids.set(el, i); refs.set(i, new WeakRef(el)); gone.register(el, i); }
    return i;
  };
  const get = i => { const el = refs.get(i)?.deref(); return el?.isConnected ? el : undefined; };
  globalThis.gantryElement = get; // for functions that are about one element and not of this script
  const words = s => new Set(s.split(' '));
  const SKIP = words('STYLE SCRIPT HEAD META LINK TITLE NOSCRIPT TEMPLATE BASE');
  const LEAF = words('SELECT TEXTAREA svg CANVAS VIDEO AUDIO OBJECT EMBED IFRAME FRAME IMG INPUT');
  const TAGS = words('BUTTON INPUT SELECT TEXTAREA A DETAILS SUMMARY OPTION OPTGROUP');
  const ROLES = words('button link menuitem menuitemcheckbox menuitemradio option radio checkbox switch tab textbox combobox listbox slider spinbutton search searchbox gridcell treeitem');
  const BOXES = words('listbox menu combobox menubar tree grid');
  const STATES = ['aria-checked', 'aria-expanded', 'aria-pressed', 'aria-selected'];
  const HANDLERS = ['onclick', 'onmousedown', 'onmouseup', 'onkeydown', 'onkeyup', 'tabindex'];
  const SEARCH = /search|magnify|glass|lookup|find|query/i;
  const ATTRS = words('title type id name role placeholder data-date-format alt aria-label data-state aria-checked aria-valuemin aria-valuemax aria-valuenow aria-placeholder pattern min max minlength maxlength step accept multiple inputmode autocomplete aria-autocomplete list data-mask data-inputmask data-datepicker contenteditable');
  const MARGIN = 1000;
  const closed = new WeakMap(); // host → its closed shadow root, once it is known
  const asked = new WeakMap(); // element of which was asked whether it has one → its size then
  // A form has properties named like its fields, and a document like its pictures. These hide what they are called like, so both are read past them.
  const shims = new WeakSet();
  const past = (target, proto) => {
    const shim = new Proxy(target, {
      get(t, k) { const v = Reflect.get(proto, k, t); return typeof v === 'function' ? v.bind(t) : v; },
      set: (t, k, v) => Reflect.set(proto, k, v, t),
    });
    shims.add(shim);
    return shim;
  };
  const D = past(document, Object.getPrototypeOf(document));
  const form = el => el instanceof HTMLFormElement;
  const safe = el => form(el) && !shims.has(el) ? past(el, HTMLFormElement.prototype) : el;
  const getter = k => { const {get} = Object.getOwnPropertyDescriptor(Node.prototype, k); return n => get.call(n); };
  const TYPE = getter('nodeType'), FIRST = getter('firstChild'), NEXT = getter('nextSibling'), PARENT = getter('parentNode');
  const up = el => PARENT(el)?.nodeType === 1 || form(PARENT(el)) ? PARENT(el) : null; // its parent element
  const root = el => { const r = safe(el).getRootNode(); return r === document ? D : r; };
  const shadow = el => form(el) ? null : el.shadowRoot ?? closed.get(el);
  const parent = n => PARENT(n) || (TYPE(n) === 11 ? n.host : null);
  const contains = (a, b) => { for (let n = b; n; n = parent(n)) if (n === a) return true; return false; };
  const label = el => safe(el).closest?.('label');
  const related = (el, h) => contains(el, h) || contains(h, el) || label(h)?.control === el || label(el)?.control === h;
  const at = (x, y) => {
    let h = D.elementFromPoint(x, y);
    for (let s; h && (s = shadow(h));) { const d = s.elementFromPoint(x, y); if (!d || d === h) break; h = d; }
    return h;
  };
  // What is behind a modal dialog can be seen.
  const backdrop = (x, px, py) => {
    if (!safe(x).matches('dialog:modal')) return false;
    const r = x.getBoundingClientRect();
    return px < r.left || px > r.right || py < r.top || py > r.bottom;
  };
  const POINTS = [[.5, .5], [.2, .2], [.8, .8]];
  // What covers el in the viewport; null: nothing, at one of its points at least.
  const cover = (el, r) => {
    const l = Math.max(r.left, 0), t = Math.max(r.top, 0), w = Math.min(r.right, innerWidth) - l, h = Math.min(r.bottom, innerHeight) - t;
    if (w < 1 || h < 1) return null;
    let first = null;
    for (const [fx, fy] of POINTS) {
      const px = l + w * fx, py = t + h * fy, x = at(px, py);
      if (!x || related(el, x) || backdrop(x, px, py)) return null;
      first ??= x;
    }
    return first;
  };
  const alpha = c => { const m = c.match(/[\d.]+/g); return m && m.length > 3 ? +m[3] : m ? 1 : 0; };
  const opaque = (h, el) => {
    let solid = false;
    for (let n = h; n && TYPE(n) === 1 && !contains(n, el); n = parent(n)) {
      const s = getComputedStyle(n);
      if (s.opacity < .8) return false;
      solid ||= alpha(s.backgroundColor) >= .8 || s.backgroundImage !== 'none' || LEAF.has(n.tagName);
    }
    return solid;
  };
  const hidden = el => { const e = safe(el); return e.checkVisibility && !e.checkVisibility({visibilityProperty: true}); };
  const disabled = el => { const e = safe(el); return e.matches(':disabled') || e.getAttribute('aria-disabled') === 'true'; };
  const wraps = el => el.querySelector(':scope > :is(input, select, textarea), :scope > * > :is(input, select, textarea)');
  const texts = s => s.replace(/\s*[\n\t\r]\s*/g, ' ').trim().toWellFormed();
  const clip = (s, n) => s.length > n ? s.slice(0, n).toWellFormed() + '...' : s;
  const name = node => {
    const el = safe(node), by = el.getAttribute('aria-labelledby');
    const s = by ? by.split(/\s+/).map(i => safe(root(el).getElementById?.(i))?.textContent ?? '').join(' ')
      : el.querySelector('img[alt]')?.alt || el.querySelector('svg title')?.textContent || '';
    return texts(s);
  };
  const editable = el => safe(el).isContentEditable && !safe(up(el))?.isContentEditable;

  function interactive(node, cs, r, up, listens) {
    const el = safe(node);
    const tag = el.tagName;
    if (tag === 'HTML' || tag === 'BODY') return false;
    if (cs.pointerEvents === 'none' || disabled(el)) return false;
    if (listens.has(node)) return true;
    if (tag === 'IFRAME' || tag === 'FRAME') return r.width > 100 && r.height > 100;
    if (tag === 'LABEL') { if (el.htmlFor) return false; if (wraps(el)) return true; }
    if (tag === 'SPAN' && wraps(el)) return true;
    if (TAGS.has(tag) || el.tabIndex >= 0 || editable(node)) return true;
    if (HANDLERS.some(a => el.hasAttribute(a)) || STATES.some(a => el.hasAttribute(a))) return true;
    if (ROLES.has(el.getAttribute('role'))) return true;
    const c = el.getAttribute('class') || '';
    if (SEARCH.test(c) || SEARCH.test(el.id) || Object.values(el.dataset ?? {}).some(v => SEARCH.test(v))) return true;
    if (r.width >= 10 && r.width <= 50 && r.height >= 10 && r.height <= 50 && (c || ['role', 'data-action', 'aria-label'].some(a => el.hasAttribute(a)))) return true;
    return cs.cursor === 'pointer' && up.cursor !== 'pointer';
  }

  const FORMATS = {date: 'YYYY-MM-DD', time: 'HH:MM', 'datetime-local': 'YYYY-MM-DDTHH:MM', month: 'YYYY-MM', week: 'YYYY-W##'};
  // How a field wants its value, unless it says so itself.
  function format(el, type) {
    if (el.placeholder) return [];
    if (FORMATS[type]) return [['format', FORMATS[type]], ['placeholder', FORMATS[type]]];
    if (type === 'tel' && !el.pattern) return [['placeholder', '123-456-7890']];
    if (type !== 'text') return [];
    const popup = el.getAttribute('uib-datepicker-popup');
    if (popup) return [['expected_format', popup], ['format', popup]];
    if (!/date(range|time)?picker/i.test(el.className) && !el.hasAttribute('data-datepicker')) return [];
    const f = el.dataset.dateFormat || 'mm/dd/yyyy';
    return [['placeholder', f], ['format', f]];
  }
  const seen = el => { const r = el.getBoundingClientRect(); return r.width && r.height && !hidden(el); };
  let labels; // ID → label, as long as a page is read
  // The name of a field whose label can't be seen.
  function labelled(el) {
    labels ??= new Map([...D.querySelectorAll('label[for]')].map(l => [l.htmlFor, l]));
    const l = label(el) ?? labels.get(el.id);
    return l && !seen(l) ? texts(l.textContent) : '';
  }
  function attributes(node, n, links) {
    const el = safe(node);
    const a = n.a = [], tag = el.tagName, type = tag === 'INPUT' ? el.type : '';
    const secret = type === 'password' || type === 'file', formats = tag === 'INPUT' ? format(el, type) : [];
    let shown = tag !== 'INPUT' && tag !== 'TEXTAREA' || secret; // whether its value is
    const add = (k, v) => { if (v !== undefined && v !== null && v !== '') a.push([k, clip(texts(String(v)), 100)]); };
    for (const {name: k, value: v} of el.attributes) {
      if (k === 'value' && !shown) { add(k, el.value); shown = true; } else if (ATTRS.has(k) && (k !== 'data-date-format' || !formats.length)) a.push([k, clip(texts(v), 100)]);
    }
    for (const [k, v] of formats) add(k, v);
    if (type === 'checkbox' || type === 'radio') add('checked', el.indeterminate ? 'mixed' : el.checked);
    else if (type === 'password') add('value-state', el.value ? 'filled' : '');
    else if (type === 'file') add('files', [...el.files].map(f => f.name).join('|'));
    else if (!shown) add('value', el.value);
    else if (tag === 'SELECT') {
      const all = [...el.options].map(o => clip(texts(o.label), 30));
      add('selected', [...el.selectedOptions].map(o => clip(texts(o.label), 30)).join('|'));
      add('options', all.slice(0, 6).join('|') + (all.length > 6 ? `|+${all.length - 6}` : ''));
    }
    if (tag === 'SUMMARY' && el.parentElement?.tagName === 'DETAILS') add('expanded', el.parentElement.open);
    if (tag === 'AUDIO' || tag === 'VIDEO') add('state', el.paused ? 'paused' : 'playing');
    for (const [k, s] of [['expanded', 'aria-expanded'], ['selected', 'aria-selected'], ['pressed', 'aria-pressed'], ['haspopup', 'aria-haspopup']]) add(k, el.getAttribute(s));
    if (el.getAttribute('aria-checked') && type !== 'checkbox') add('checked', el.getAttribute('aria-checked'));
    if (el.getAttribute('aria-invalid') === 'true' || el.willValidate && el.value && !el.validity.valid) add('invalid', 'true');
    if (el.required || el.getAttribute('aria-required') === 'true') add('required', 'true');
    if (el.readOnly && tag !== 'SELECT') add('readonly', 'true');
    if (D.activeElement === node || root(node).activeElement === node) add('focused', 'true');
    const field = tag === 'INPUT' || tag === 'SELECT' || tag === 'TEXTAREA', named = ['aria-label', 'title', 'placeholder'].some(k => el.getAttribute(k));
    if (field && !named) add('ax_name', labelled(el));
    else if ((tag === 'A' || tag === 'BUTTON' || el.hasAttribute('role') || el.hasAttribute('aria-labelledby')) && !el.innerText?.trim()) add('ax_name', name(el));
    if (links && tag === 'A' && el.getAttribute('href')) n.h = (el.origin === location.origin ? el.href.slice(el.origin.length) : el.href).toWellFormed();
  }

  const SIGNS = {'>': 'next', '»': 'next', '›': 'next', '→': 'next', '<': 'prev', '«': 'prev', '‹': 'prev', '←': 'prev', '⇤': 'first', '⇥': 'last'};
  const PAGES = Object.entries({
    last: 'last|última|dernier|dernière|letzte|laatste', first: 'first|primera|premier|première|erste|eerste',
    next: 'next|siguiente|suivant|suivante|weiter|volgende', prev: 'prev|previous|anterior|précédent|précédente|zurück|vorige',
  }).map(([k, words]) => [k, new RegExp(`(?<!\\p{L})(${words})(?!\\p{L})`, 'u')]);
  // What an element does in a list of which each part is a page of its own; '': nothing.
  function turns(node) {
    const el = safe(node);
    const role = el.getAttribute('role');
    if (el.childElementCount > 3 || role && role !== 'button' && role !== 'link' || !role && el.tagName !== 'A' && el.tagName !== 'BUTTON') return '';
    const t = texts(el.textContent).toLowerCase();
    if (t.length > 20) return '';
    const c = (el.getAttribute('class') ?? '').toLowerCase(), all = [t, el.getAttribute('aria-label'), el.title, c].join(' ').toLowerCase();
    const what = SIGNS[t] ?? PAGES.find(([, re]) => re.test(all))?.[0] ?? (/^\d{1,2}$/.test(t) ? t : '');
    return what && /disabled/.test(c) ? what + ' (disabled)' : what;
  }

  // Elements that may have a shadow root which scripts can't see, and that are worth to be asked of: most elements have none.
  const HOSTS = words('DIV SECTION ARTICLE MAIN ASIDE HEADER FOOTER NAV SPAN P');
  const MAX_HOSTS = 64, MAX_DEPTH = 1000, MAX_TEXT = 200_000;
  function hosts(el, cs, r, range) {
    if (form(el)) return false;
    const tag = el.tagName;
    if (tag.includes('-')) return el.matches(':defined');
    if (!HOSTS.has(tag) || el.firstElementChild || r.width < 8 || r.height < 8) return false;
    if (!el.textContent.trim()) return true; // something else gives it its size
    if (tag === 'SPAN' || tag === 'P' || cs.textAlign !== 'start') return false;
    range.selectNodeContents(el); // something else stands before its text
    return range.getBoundingClientRect().left - r.left - parseFloat(cs.paddingLeft) > 8;
  }

  // The first objects are the elements of frames, the others what has listeners, and closed shadow roots.
  function read(o, ...objects) {
    const owners = new Map(objects.slice(0, o.frames).map((o, i) => [o, i + 1]));
    const listens = new Set(objects.slice(o.frames));
    for (const l of listens) for (let s = root(l); s !== D && s.host; s = root(s.host)) if (!s.host.shadowRoot) closed.set(s.host, s);
    const modal = [...D.querySelectorAll('dialog:modal')].at(-1);
    let below = 0, above = 0, elements = 0;
    const tall = o.view && innerHeight > o.view[1] - o.view[0]; // then the window is what is scrolled, not the frame
    const far = [], maybe = [], unnamed = [], framed = window !== top;
    let start = D.documentElement;
    const band = {l: 0, t: -MARGIN, r: innerWidth, b: innerHeight + MARGIN};
    if (o.view) Object.assign(band, {t: Math.max(band.t, o.view[0] - MARGIN), b: Math.min(band.b, o.view[1] + MARGIN)}); // a frame may be larger than the window
    if (o.scope) {
      try { start = typeof o.scope === 'number' ? get(o.scope) : D.querySelector(o.scope); } catch (e) { return {error: e.message}; }
      if (!start) return {error: typeof o.scope === 'number' ? 'the element is no longer in the page' : `nothing in the page matches ${o.scope}`};
      const r = safe(start).getBoundingClientRect(); // all of it, wherever the page is scrolled to
      Object.assign(band, {l: Math.min(band.l, r.left), t: Math.min(band.t, r.top), r: Math.max(band.r, r.right), b: Math.max(band.b, r.bottom)});
    }
    labels = undefined;
    const range = D.createRange();
    const FLAG = {interactive: 1, covered: 2, scroll: 4, box: 8, keep: 16, zero: 32};

    function text(node, up, out) {
      if (!up.visible && !up.loose) return;
      const s = clip(texts(node.data), MAX_TEXT);
      if (!s) return;
      let r = up.rect;
      if (!up.inside || up.loose || up.top > 0) {
        range.selectNodeContents(node);
        const q = range.getBoundingClientRect();
        if (!q.width || !q.height || q.bottom <= up.clip.t || q.top >= up.clip.b || q.right <= up.clip.l || q.left >= up.clip.r) return;
        r = q;
      }
      const h = r === up.rect && up.hit !== undefined ? up.hit : cover(up.el, r);
      if (h && opaque(h, up.el)) return;
      out.push({x: s});
    }

    function kids(el, up, out) {
      if (up.depth > MAX_DEPTH) return;
      for (let c = FIRST(el); c; c = NEXT(c)) {
        const type = TYPE(c);
        if (type === 3) text(c, up, out);
        else if (type === 1) walk(c, up, out);
      }
    }

    function walk(node, up, out) {
      const el = safe(node), tag = el.tagName;
      if (SKIP.has(tag)) return;
      elements++;
      const r = el.getBoundingClientRect();
      const zero = !r.width || !r.height, area = up.clip;
      const near = r.bottom > area.t && r.top < area.b && r.right > area.l && r.left < area.r;
      const file = tag === 'INPUT' && el.type === 'file';
      if (!near && !zero) {
        if (TAGS.has(tag) || el.hasAttribute('onclick')) {
          if (r.bottom <= area.t) above++;
          else if (r.top >= area.b) { if (below++ < 200 && framed) far.push({el: node, d: tall ? (r.top - o.view[0]) / (o.view[1] - o.view[0]) : r.top / innerHeight}); }
        }
        if (!el.firstElementChild && !shadow(node) && !file) return;
      }
      const cs = near || zero ? getComputedStyle(node) : null;
      if (cs && (cs.display === 'none' || cs.opacity === '0' || cs.contentVisibility === 'hidden')) {
        for (const f of file ? [node] : el.querySelectorAll('input[type=file]')) if (!disabled(f)) { const n = {n: 'input', i: id(f), f: FLAG.interactive | FLAG.keep | FLAG.zero}; attributes(f, n, o.links); out.push(n); }
        return;
      }
      const visible = near && !zero && cs.visibility === 'visible';
      const n = {n: tag.toLowerCase()};
      let f = 0, inner = area, spills = false, hit;
      const holds = FIRST(node) || shadow(node) || tag === 'TEXTAREA'; // what holds nothing clips nothing
      if (holds && cs?.position === 'fixed') inner = band;
      const ox = holds && cs?.overflowX || 'visible', oy = holds && cs?.overflowY || 'visible';
      if (near && !zero && (ox !== 'visible' || oy !== 'visible') && tag !== 'HTML' && tag !== 'BODY') {
        spills = el.scrollHeight > el.clientHeight + 1 || el.scrollWidth > el.clientWidth + 1;
        const room = v => v === 'auto' || v === 'scroll' ? MARGIN : 0;
        inner = {l: Math.max(inner.l, r.left - room(ox)), r: Math.min(inner.r, r.right + room(ox)), t: Math.max(inner.t, r.top - room(oy)), b: Math.min(inner.b, r.bottom + room(oy))};
        const y = room(oy) && el.scrollHeight > el.clientHeight + 1, x = room(ox) && el.scrollWidth > el.clientWidth + 1;
        if ((x || y) && visible && tag !== 'TEXTAREA') {
          f |= FLAG.scroll;
          const h = el.clientHeight || 1, w = el.scrollWidth - el.clientWidth;
          n.s = [el.scrollTop / h, Math.max(0, el.scrollHeight - el.clientHeight - el.scrollTop) / h, x ? Math.round(el.scrollLeft / w * 100) : -1];
          if (BOXES.has(el.getAttribute('role')) || /(^|\s)(dropdown|dropdown-menu|select-menu)(\s|$)/.test(el.className)) f |= FLAG.box;
        }
      }
      const frame = owners.get(node);
      if (frame) n.o = frame;
      const acts = (visible || file) && interactive(node, cs, r, up, listens);
      if (visible && !shadow(node) && maybe.length < MAX_HOSTS && hosts(node, cs, r, range)) {
        const size = Math.round(r.width) + 'x' + Math.round(r.height);
        if (asked.get(node) !== size) { asked.set(node, size); maybe.push(id(node)); }
      }
      const picture = tag === 'svg' && visible && (r.width > 50 || r.height > 50);
      if (acts || picture || f & FLAG.scroll || frame && visible) {
        if (acts && !up.inert && !(modal && !contains(modal, node)) && !el.inert) f |= FLAG.interactive;
        if (visible) hit = cover(node, r);
        if (hit && opaque(hit, node)) f |= FLAG.covered;
        if (el.hasAttribute('onclick') || listens.has(node)) f |= FLAG.keep;
        n.i = id(node);
        n.r = [r.left, r.top, r.width, r.height].map(Math.round);
        attributes(node, n, o.links);
        if (acts) {
          const p = turns(node);
          if (p) n.p = p;
          if (tag.includes('-') && !el.innerText?.trim() && !el.getAttribute('aria-label')) unnamed.push(n.i);
        }
      }
      if (f) n.f = f;
      const own = n.i ? n.k = [] : out;
      if (!LEAF.has(tag)) {
        const root = shadow(node);
        const down = {
          el: node, depth: up.depth + 1, rect: r, clip: inner, cursor: holds && cs?.cursor || up.cursor, inert: up.inert || el.inert, visible, hit,
          loose: cs && cs.visibility === 'visible' && cs.display === 'contents',
          // Text in here need not be measured. That of a host is shown only if there is a slot for it.
          inside: !root && !spills && r.top >= inner.t && r.bottom <= inner.b && r.left >= inner.l && r.right <= inner.r,
        };
        if (tag === 'DETAILS' && !el.open) { const s = [...el.children].find(c => c.tagName === 'SUMMARY'); if (s) walk(s, down, own); }
        else kids(node, down, own);
        if (root) {
          const s = {n: '#shadow', k: []};
          if (root.mode === 'closed') s.x = root.mode;
          kids(root, down, s.k);
          if (s.k.length) own.push(s);
        }
      } else if (tag === 'TEXTAREA' || tag === 'SELECT') { /* its value is an attribute */ }
      if (n.i) { if (!n.k.length) delete n.k; out.push(n); }
    }
    const out = [], e = D.scrollingElement ?? D.documentElement;
    if (start) {
      walk(start, {el: start, depth: 0, rect: {}, clip: band, cursor: 'auto', inert: false, visible: false}, out);
    }
    return {
      doc, url: location.href, title: texts(D.title), nodes: out, below, above, elements, hosts: maybe, unnamed,
      far: far.sort((a, b) => a.d - b.d).slice(0, 10).map(({el: node, d}) => [safe(node), d]).map(([el, d]) => ({n: el.tagName.toLowerCase(), d, x: clip(texts(el.innerText || el.placeholder || el.title || el.getAttribute('aria-label') || ''), 40)})),
      view: [innerWidth, innerHeight], page: [e?.scrollWidth ?? 0, e?.scrollHeight ?? 0], scroll: [Math.round(scrollX), Math.round(scrollY)],
    };
  }

  const describe = node => {
    const el = safe(node);
    const a = ['id', 'role', 'aria-label'].filter(k => el.getAttribute(k)).map(k => `${k}=${clip(el.getAttribute(k), 40)}`);
    const t = clip(texts(el.innerText ?? ''), 40);
    return `<${[el.tagName.toLowerCase(), ...a].join(' ')}>` + (t ? ` "${t}"` : '');
  };

  // Scrolls an element into view and returns the point to click, in coordinates of the frame.
  function locate(i, owner, x, y) {
    const node = get(i), el = safe(node);
    if (!node) return {gone: true};
    let r = el.getBoundingClientRect();
    const fits = r => r.top >= 0 && r.left >= 0 && r.bottom <= innerHeight && r.right <= innerWidth;
    if (!fits(r) || !owner && cover(node, r)) {
      el.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
      r = el.getBoundingClientRect();
    }
    if (owner) { // a point in the frame's content
      const s = getComputedStyle(node), l = r.left + el.clientLeft + parseFloat(s.paddingLeft), t = r.top + el.clientTop + parseFloat(s.paddingTop);
      const h = at(l + x, t + y);
      return {x: l + x, y: t + y, cover: h && !related(node, h) ? describe(h) : ''};
    }
    if (!r.width || !r.height || hidden(el)) return {hidden: true, what: describe(el)};
    const best = [...el.getClientRects()].map(q => ({l: Math.max(q.left, 0), t: Math.max(q.top, 0), r: Math.min(q.right, innerWidth), b: Math.min(q.bottom, innerHeight)}))
      .map(q => ({...q, area: Math.max(0, q.r - q.l) * Math.max(0, q.b - q.t)})).sort((p, q) => q.area - p.area)[0];
    if (!best?.area) return {hidden: true, what: describe(el)};
    const box = [r.left, r.top, r.width, r.height];
    let first = null;
    for (const [fx, fy] of POINTS) {
      const px = best.l + (best.r - best.l) * fx, py = best.t + (best.b - best.t) * fy, h = at(px, py);
      if (h && related(node, h)) return {x: px, y: py, what: describe(el), disabled: disabled(el), box};
      first ??= h;
    }
    return {x: (best.l + best.r) / 2, y: (best.t + best.b) / 2, what: describe(el), cover: first ? describe(first) : '', disabled: disabled(el), box};
  }

  const kind = el => el.tagName === 'SELECT' ? 'select' : el.tagName === 'INPUT' ? el.type : el.tagName === 'TEXTAREA' ? 'textarea' : el.isContentEditable ? 'editable' : '';
  const value = el => el.isContentEditable ? el.innerText : el.value ?? '';
  const ASSIGNED = words('date time datetime-local month week color range');
  function inspect(i) {
    const el = safe(get(i));
    if (!el) return {gone: true};
    return {kind: kind(el), what: describe(el), value: el.type === 'password' ? '' : value(el), checked: !!el.checked, disabled: disabled(el), readonly: !!el.readOnly,
      combobox: el.getAttribute('role') === 'combobox' || (el.getAttribute('aria-autocomplete') ?? 'none') !== 'none' || el.hasAttribute('list'),
      assigned: ASSIGNED.has(kind(el))};
  }
  // Focuses a field, and selects its content if it is to be replaced; otherwise, the cursor is at its end.
  function focus(i, replace) {
    const node = get(i), el = safe(node);
    if (!el) return {gone: true};
    el.focus();
    if (el.isContentEditable) {
      const s = getSelection();
      s.selectAllChildren(node);
      if (!replace) s.collapseToEnd();
    } else if (replace) el.select?.();
    else try { el.setSelectionRange(el.value.length, el.value.length); } catch {}
    const a = root(node).activeElement;
    return {focused: a === node || contains(node, a), empty: value(el) === ''};
  }
  const changed = el => { for (const t of ['input', 'change']) el.dispatchEvent(new Event(t, {bubbles: true, composed: true})); };
  function assign(i, v) {
    const el = get(i);
    if (!el) return {gone: true};
    el.focus();
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(el, v);
    changed(el);
    return {value: el.value};
  }
  const list = el => [...el.options].map((o, i) => ({i, text: texts(o.label), value: o.value, selected: o.selected, disabled: o.disabled}));
  function options(i) {
    const node = get(i), el = safe(node);
    if (!el) return {gone: true};
    if (el.tagName === 'SELECT') return {options: list(el)};
    const controlled = (el.getAttribute('aria-controls') || el.getAttribute('aria-owns') || '').split(/\s+/).map(i => safe(root(node).getElementById?.(i))).filter(Boolean);
    const found = [el, ...controlled].flatMap(e => [...e.querySelectorAll('[role=option],[role=menuitem],[role=menuitemradio],.item,.option,[data-value]')]);
    return {options: found.map((o, i) => ({i, text: texts(o.innerText ?? ''), value: o.dataset.value ?? '', selected: o.getAttribute('aria-selected') === 'true', id: id(o)}))};
  }
  function select(i, wanted) {
    const el = get(i);
    if (!el) return {gone: true};
    const all = [...el.options], fold = s => s.trim().toLowerCase();
    const found = wanted.map(w => all.find(o => fold(o.label) === fold(w)) ?? all.find(o => fold(o.value) === fold(w)));
    const missing = wanted.filter((_, i) => !found[i] || found[i].disabled);
    if (missing.length) return {missing, options: list(el)};
    el.focus();
    for (const o of all) if (el.multiple) o.selected = found.includes(o);
    if (!el.multiple) el.selectedIndex = all.indexOf(found[0]);
    changed(el);
    return {selected: [...el.selectedOptions].map(o => texts(o.label))};
  }
  function scroll(i, dx, dy) {
    let node = i ? get(i) : D.scrollingElement ?? D.documentElement;
    if (!node) return {gone: true};
    const able = n => {
      const {overflowX, overflowY} = getComputedStyle(n), e = safe(n);
      return /auto|scroll/.test(overflowY) && e.scrollHeight > e.clientHeight || /auto|scroll/.test(overflowX) && e.scrollWidth > e.clientWidth;
    };
    while (i && !able(node) && up(node)) node = up(node);
    const el = safe(node), page = node === D.scrollingElement, h = page ? innerHeight : el.clientHeight, w = page ? innerWidth : el.clientWidth;
    const was = [el.scrollLeft, el.scrollTop];
    el.scrollBy({left: dx * w, top: dy * h, behavior: 'instant'});
    return {x: Math.round(el.scrollLeft - was[0]), y: Math.round(el.scrollTop - was[1])};
  }
  function* textNodes(root) {
    const w = D.createTreeWalker(root, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT, n => TYPE(n) === 1 && SKIP.has(n.tagName) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT);
    for (let n = w.nextNode(); n; n = w.nextNode()) {
      if (TYPE(n) === 3) yield n;
      else if (shadow(n)) yield* textNodes(shadow(n));
    }
  }
  const shown = n => n.parentElement ? !hidden(n.parentElement) : true;
  function findText(s) {
    const want = s.toLowerCase();
    for (const n of textNodes(document)) if (shown(n) && n.data.toLowerCase().includes(want)) {
      safe(n.parentElement ?? n.parentNode.host).scrollIntoView({block: 'center', behavior: 'instant'});
      return {found: true};
    }
    return {found: false};
  }
  function search(pattern, regex, exact, context, scope, most) {
    const root = scope ? D.querySelector(scope) : document;
    if (!root) return {error: `no element matches ${scope}`};
    let re;
    try { re = new RegExp(regex ? pattern : pattern.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), exact ? 'g' : 'gi'); } catch (e) { return {error: e.message}; }
    let all = '';
    const parts = [];
    for (const n of textNodes(root)) if (n.data.trim() && shown(n)) { parts.push([all.length, n]); all += n.data + ' '; }
    const matches = [];
    let total = 0;
    for (const m of all.matchAll(re)) {
      if (!m[0]) continue;
      if (total++ >= most) continue;
      const n = parts.findLast(p => p[0] <= m.index)?.[1];
      const path = [];
      for (let p = n?.parentElement, e; (e = safe(p)) && p !== D.body; p = up(p)) path.unshift(e.tagName.toLowerCase() + (e.id ? '#' + e.id : [...e.classList].slice(0, 2).map(c => '.' + c).join('')));
      const from = Math.max(0, m.index - context), to = m.index + m[0].length + context;
      matches.push({text: (from ? '...' : '') + texts(all.slice(from, to)) + (to < all.length ? '...' : ''), path: path.join(' > ')});
    }
    return {total, matches};
  }
  function find(selector, wanted, most, text) {
    let all;
    try { all = [...D.querySelectorAll(selector)]; } catch (e) { return {error: e.message}; }
    return {total: all.length, elements: all.slice(0, most).map(safe).map(e => ({
      tag: e.tagName.toLowerCase(), text: text ? clip(texts(e.textContent ?? ''), 120) : '', children: e.children.length,
      attributes: Object.fromEntries((wanted ?? []).filter(k => e.hasAttribute(k)).map(k => [k, clip(k === 'href' || k === 'src' ? e[k] || e.getAttribute(k) : e.getAttribute(k), 500)])),
    }))};
  }
  // Resolves when the document is complete and has a size, has not changed for some milliseconds, and two frames have been drawn.
  const quiet = ms => new Promise(done => {
    let timer;
    const again = () => { clearTimeout(timer); timer = setTimeout(end, ms); };
    const o = new MutationObserver(again);
    const end = () => {
      if (D.readyState !== 'complete' || !innerWidth || !innerHeight) return; // an event follows
      o.disconnect();
      D.removeEventListener('readystatechange', again);
      removeEventListener('resize', again);
      requestAnimationFrame(() => requestAnimationFrame(() => done(true)));
    };
    o.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
    D.addEventListener('readystatechange', again);
    addEventListener('resize', again);
    again();
  });
  // Resolves when the page contains a text, or no longer contains it.
  const awaits = (s, absent) => new Promise(done => {
    const has = () => (D.body?.innerText ?? '').includes(s) !== absent;
    if (has()) return done(true);
    const o = new MutationObserver(() => { if (has()) { o.disconnect(); done(true); } });
    o.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
  });
  globalThis.gantry = {D, TYPE, safe, parent, shadow, get, id, read, locate, inspect, focus, assign, options, select, scroll, findText, search, find, quiet, awaits};
})()
