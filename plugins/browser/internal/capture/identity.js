// Runs after reader.js, in the same world: what elements are recognized by, and the content of the page as HTML.
(() => {
  if (gantry.identify) return;
  const {D, TYPE, safe, parent, shadow, get} = gantry;
  const known = n => n === document ? D : safe(n);
  // The tags above an element, and its place among its siblings of the same tag, in its document; shadow roots are passed through.
  function place(el, seen) {
    const siblings = p => {
      if (!seen.has(p)) {
        const counts = {}, at = new Map();
        for (const c of known(p).children) { const tag = safe(c).localName; at.set(c, counts[tag] = (counts[tag] ?? 0) + 1); }
        seen.set(p, {counts, at});
      }
      return seen.get(p);
    };
    const path = [], steps = [];
    for (let n = el; n; n = parent(n)) {
      if (TYPE(n) !== 1) continue;
      const tag = safe(n).localName, above = parent(n), all = above && siblings(above);
      path.unshift(tag);
      steps.unshift(all?.counts[tag] > 1 ? `${tag}[${all.at.get(n)}]` : tag);
    }
    return {path, xpath: steps.join('/')};
  }
  function identify(list) {
    const seen = new Map();
    return list.map(i => {
      const node = get(i);
      if (!node) return {id: i, gone: true};
      const el = safe(node), r = el.getBoundingClientRect(), attributes = {};
      for (const {name, value} of el.attributes) if (name !== 'value' || el.type !== 'password') attributes[name] = value.toWellFormed();
      return {id: i, ...place(node, seen), attributes, rect: [r.left, r.top, r.width, r.height]};
    });
  }

  const SKIP = new Set('STYLE SCRIPT HEAD META LINK TITLE NOSCRIPT TEMPLATE BASE OBJECT EMBED CANVAS VIDEO AUDIO svg'.split(' '));
  const VOID = new Set('BR HR IMG'.split(' '));
  const KEEP = new Set('A ABBR ARTICLE ASIDE B BLOCKQUOTE BR BUTTON CAPTION CODE DD DETAILS DIV DL DT EM FIGCAPTION FIGURE FOOTER FORM H1 H2 H3 H4 H5 H6 HEADER HR I IMG LI MAIN NAV OL P PRE S SECTION SMALL SPAN STRONG SUB SUMMARY SUP TABLE TBODY TD TFOOT TH THEAD TR UL'.split(' '));
  const escape = s => s.replace(/[&<>"]/g, c => ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'})[c]);
  const attr = (k, v) => v ? ` ${k}="${escape(v.toWellFormed())}"` : '';
  // The content of the page as it is seen, without what is hidden; frames are marks that begin with a token.
  function html(token, links, images, most) {
    const out = [];
    let size = 0, cut = false;
    const put = s => { if ((size += s.length) > most) cut = true; else out.push(s); };
    const value = el => el.type === 'password' ? '' : el.tagName === 'SELECT' ? [...el.selectedOptions].map(o => o.label).join(', ')
      : el.type === 'checkbox' || el.type === 'radio' ? (el.checked ? '[x]' : '[ ]') : el.type === 'hidden' ? '' : el.value;
    function walk(n) {
      if (cut) return;
      if (TYPE(n) === 3) return put(escape(n.data.toWellFormed()));
      const el = safe(n), tag = el.tagName;
      if (TYPE(n) !== 1 || SKIP.has(tag)) return;
      if (el.checkVisibility && !el.checkVisibility({visibilityProperty: true, opacityProperty: true})) {
        // What is inside may still be seen: visibility is not that of an ancestor, and a slot or an element with display:contents has no box.
        const {display, opacity} = getComputedStyle(n);
        if (display === 'none' || opacity === '0') return;
        return kids(n, display !== 'contents');
      }
      if (tag === 'IFRAME' || tag === 'FRAME') return put(`<div>${token}${gantry.id(n)};</div>`);
      if (tag === 'INPUT' || tag === 'SELECT' || tag === 'TEXTAREA') { const v = value(n); return v ? put(` ${escape(String(v))} `) : undefined; }
      if (!KEEP.has(tag)) return block(n, kids);
      let a = '';
      if (tag === 'A' && links && /^https?:/.test(n.href)) a += attr('href', n.href);
      if (tag === 'IMG') {
        if (!images || !/^https?:/.test(n.currentSrc || n.src)) return n.alt ? put(escape(n.alt)) : undefined;
        a += attr('src', n.currentSrc || n.src) + attr('alt', n.alt);
      }
      for (const k of ['colspan', 'rowspan', 'start']) a += attr(k, el.getAttribute(k));
      put(`<${tag.toLowerCase()}${a}>`);
      if (VOID.has(tag)) return;
      kids(n);
      put(`</${tag.toLowerCase()}>`);
    }
    const block = (n, f) => {
      const box = getComputedStyle(n).display;
      const inline = box.startsWith('inline') || box === 'contents';
      if (!inline) put('<div>');
      f(n);
      if (!inline) put('</div>');
    };
    function kids(n, elements) {
      const el = safe(n), list = el.tagName === 'SLOT' && n.assignedNodes().length ? n.assignedNodes() : (shadow(n) ?? el).childNodes;
      for (const c of list) if (!elements || TYPE(c) === 1) walk(c);
    }
    if (D.body) walk(D.body);
    return {html: out.join(''), cut, url: location.href, title: D.title.toWellFormed()};
  }
  const UNSEEN = new Set('STYLE SCRIPT HEAD NOSCRIPT TEMPLATE'.split(' '));
  // All text that may be seen in the document, also where it consists of several elements; passwords are dots.
  function shown() {
    const out = [D.body?.innerText ?? '', '\n'];
    const walk = n => {
      if (TYPE(n) === 3) return out.push(n.data);
      const el = safe(n), tag = el.tagName;
      if (TYPE(n) !== 1 || UNSEEN.has(tag)) return;
      if (tag === 'INPUT' || tag === 'TEXTAREA') return out.push('\n', el.type === 'password' ? '' : el.value, '\n', el.placeholder, '\n');
      for (const c of el.childNodes) walk(c);
      for (const c of shadow(n)?.childNodes ?? []) walk(c);
    };
    if (D.body) walk(D.body);
    return out.join('').toWellFormed();
  }
  Object.assign(gantry, {identify, html, shown});
})()
