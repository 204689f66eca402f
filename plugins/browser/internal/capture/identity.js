// Runs after reader.js, in the same world: what elements are recognized by, and the content of the page as HTML.
(() => {
  if (gantry.identify) return;
  const {get} = gantry;
  const up = n => n.parentNode ?? n.host;
  // The tags above an element, and its place among its siblings of the same tag, in its document; shadow roots are passed through.
  function place(el, seen) {
    const siblings = p => {
      if (!seen.has(p)) {
        const counts = {}, at = new Map();
        for (const c of p.children) at.set(c, counts[c.localName] = (counts[c.localName] ?? 0) + 1);
        seen.set(p, {counts, at});
      }
      return seen.get(p);
    };
    const path = [], steps = [];
    for (let n = el; n; n = up(n)) {
      if (n.nodeType !== 1) continue;
      const tag = n.localName, all = n.parentNode && siblings(n.parentNode);
      path.unshift(tag);
      steps.unshift(all?.counts[tag] > 1 ? `${tag}[${all.at.get(n)}]` : tag);
    }
    return {path, xpath: steps.join('/')};
  }
  function identify(list) {
    const seen = new Map();
    return list.map(i => {
      const el = get(i);
      if (!el) return {id: i, gone: true};
      const r = el.getBoundingClientRect(), attributes = {};
      for (const {name, value} of el.attributes) if (name !== 'value' || el.type !== 'password') attributes[name] = value.toWellFormed();
      return {id: i, ...place(el, seen), attributes, rect: [r.left, r.top, r.width, r.height]};
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
      if (n.nodeType === 3) return put(escape(n.data.toWellFormed()));
      if (n.nodeType !== 1 || SKIP.has(n.tagName)) return;
      const tag = n.tagName;
      if (n.checkVisibility && !n.checkVisibility({visibilityProperty: true, opacityProperty: true})) {
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
      for (const k of ['colspan', 'rowspan', 'start']) a += attr(k, n.getAttribute(k));
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
      const list = n.tagName === 'SLOT' && n.assignedNodes().length ? n.assignedNodes() : (n.shadowRoot ?? n).childNodes;
      for (const c of list) if (!elements || c.nodeType === 1) walk(c);
    }
    if (document.body) walk(document.body);
    return {html: out.join(''), cut, url: location.href, title: document.title.toWellFormed()};
  }
  Object.assign(gantry, {identify, html});
})()
