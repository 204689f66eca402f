// The globals of a script, and its connection to the process. What later code may replace is taken before it runs.
(() => {
  'use strict'
  const raw = globalThis.__host
  delete globalThis.__host
  const host = (...args) => { // a text is an error, since the engine would add the function's name to one that it throws
    const answer = raw(...args)
    if (typeof answer === 'string') throw new NativeError(answer)
    return answer
  }
  for (const name of ['Atomics', 'SharedArrayBuffer', 'WebAssembly', 'std', 'os', 'bjson', 'print', 'scriptArgs']) delete globalThis[name]
  const {parse, stringify} = JSON
  const {create, defineProperty, getPrototypeOf, keys, prototype: {toString: tagOf}} = Object
  const {apply} = Reflect
  const {isArray} = Array
  const {hasOwnProperty: hasOwn} = Object.prototype, {toString: errorText} = Error.prototype
  const {isView} = ArrayBuffer
  const NativeArrayBuffer = ArrayBuffer, NativeUint8Array = Uint8Array, NativePromise = Promise, NativeError = Error, NativeMap = Map
  const NativeSet = Set, NativeDate = Date, NativeRegExp = RegExp, NativeTypeError = TypeError, NativeProxy = Proxy, NativeString = String
  const {fromCharCode, fromCodePoint} = String
  const mapGet = Map.prototype.get, mapSet = Map.prototype.set, {includes, indexOf, slice, startsWith} = String.prototype
  const define = (name, value) => defineProperty(globalThis, name, {value, writable: true, configurable: true, enumerable: false})
  const uncurry = f => (self, ...args) => apply(f, self, args)

  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
  const digits = create(null)
  for (let i = 0; i < 64; i++) digits[alphabet[i]] = i
  const toBase64 = bytes => {
    let out = ''
    for (let i = 0; i < bytes.length; i += 3) {
      const n = bytes[i] << 16 | (bytes[i + 1] ?? 0) << 8 | (bytes[i + 2] ?? 0)
      out += alphabet[n >> 18] + alphabet[n >> 12 & 63] + (i + 1 < bytes.length ? alphabet[n >> 6 & 63] : '=') + (i + 2 < bytes.length ? alphabet[n & 63] : '=')
    }
    return out
  }
  const fromBase64 = text => {
    let end = text.length
    while (end > 0 && end > text.length - 2 && text[end - 1] === '=') end--
    if (end < text.length && text.length % 4 !== 0 || end % 4 === 1) return undefined
    const bytes = new NativeUint8Array(end * 3 >> 2)
    let n = 0, bits = 0, at = 0
    for (let i = 0; i < end; i++) {
      const d = digits[text[i]]
      if (d === undefined) return undefined
      n = (n << 6 | d) & 0xffffff
      if ((bits += 6) >= 8) bytes[at++] = n >> (bits -= 8) & 255
    }
    return bytes
  }

  const tag = '__codemode_binary_v1__'
  const viewOf = v => isView(v) ? new NativeUint8Array(v.buffer, v.byteOffset, v.byteLength) : new NativeUint8Array(v)
  const kindOf = v => v instanceof NativeUint8Array ? 'Uint8Array' : isView(v) ? 'ArrayBufferView' : 'ArrayBuffer'
  const encode = value => stringify(value, (_, v) =>
    typeof v === 'object' && v !== null && (isView(v) || v instanceof NativeArrayBuffer) ? {[tag]: kindOf(v), data: toBase64(viewOf(v))} : v)
  const decode = text => text === undefined || text === null ? undefined :
    apply(includes, text, [tag]) ? parse(text, (_, v) => {
      if (typeof v !== 'object' || v === null || typeof v[tag] !== 'string' || typeof v.data !== 'string') return v
      const bytes = fromBase64(v.data)
      return bytes === undefined ? v : v[tag] === 'ArrayBuffer' ? bytes.buffer : bytes
    }) : parse(text)

  // An error's stack as V8 writes it: the error as the first line, and at most ten frames. own is the number of frames to leave out.
  const stackOf = (e, own = 0) => {
    const {stack} = e, head = apply(errorText, e, [])
    if (typeof stack !== 'string' || stack === '') return ''
    if (apply(startsWith, stack, [head])) return stack
    let begin = 0, end = -1
    for (let frames = 0; frames < own + 10; frames++) {
      if (frames === own) begin = end + 1
      const next = apply(indexOf, stack, ['\n', end + 1])
      if (next < 0) return head + '\n' + apply(slice, stack, [begin])
      end = next
    }
    return head + '\n' + apply(slice, stack, [begin, end])
  }
  // The message of what was thrown, and its stack.
  const describe = e => {
    try {
      if (e instanceof NativeError) {
        const message = NativeString(e.message ?? '')
        return [message || NativeString(e.constructor?.name || e.name || 'Error'), stackOf(e)]
      }
      return [NativeString(e) || 'an empty value was thrown', '']
    } catch {
      return ['a value was thrown that has no text', '']
    }
  }

  // The constructors of errors give them such a stack. Errors that the engine makes itself have frames alone.
  const {construct} = Reflect, {setPrototypeOf} = Object
  for (const name of ['Error', 'AggregateError', 'EvalError', 'RangeError', 'ReferenceError', 'SyntaxError', 'TypeError', 'URIError']) {
    const native = globalThis[name]
    const withStack = e => { // whose stack begins with a built-in function and one of those below
      try { e.stack = stackOf(e, 2) } catch {} // for example, its class has a name that throws
      return e
    }
    const made = new NativeProxy(native, {
      apply: (f, self, args) => withStack(apply(f, self, args)),
      construct: (f, args, target) => withStack(construct(f, args, target)),
    })
    defineProperty(native.prototype, 'constructor', {value: made, writable: true, configurable: true})
    if (name !== 'Error') setPrototypeOf(native, globalThis.Error)
    define(name, made)
  }

  // Calls.
  const pending = create(null)
  const call = (namespace, name, args) => new NativePromise((resolve, reject) => {
    let text = '['
    for (let i = 0; i < args.length; i++) text += (i ? ',' : '') + (encode(args[i]) ?? 'null')
    pending[host('call', namespace, name, text + ']')] = {resolve, reject}
  })
  const space = (name, prelude) => {
    const functions = create(null)
    const proxy = new NativeProxy({}, {
      get(own, key) {
        if (key in own && apply(hasOwn, own, [key])) return own[key]
        if (typeof key !== 'string' || key === 'then') return undefined
        return functions[key] ??= (...args) => call(name, key, args)
      },
    })
    define(name, proxy)
    if (prelude) prelude({
      encode,
      call: (f, ...args) => call(name, NativeString(f), args),
      emit: (kind, value) => { host('emit', NativeString(kind), encode(value)) },
      exit: () => { host('exit') },
    })
  }

  // Timers.
  const timers = create(null)
  const delay = ms => { ms = +ms; return ms >= 0 && ms < 2147483648 ? ms : 0 }
  const set = (f, ms, args, repeat) => {
    if (typeof f !== 'function') throw new NativeTypeError('the callback of a timer is not a function')
    const id = host('timer', delay(ms), repeat)
    timers[id] = {f, args, repeat}
    return id
  }
  const clear = id => { if (typeof id === 'number' && delete timers[id]) host('clear', id) }
  define('setTimeout', (f, ms, ...args) => set(f, ms, args, false))
  define('setInterval', (f, ms, ...args) => set(f, ms, args, true))
  define('clearTimeout', clear)
  define('clearInterval', clear)
  define('queueMicrotask', f => {
    if (typeof f !== 'function') throw new NativeTypeError('the argument of queueMicrotask is not a function')
    ;(async () => { await undefined; f() })().then(undefined, e => { host('fail', ...describe(e)) })
  })

  // Console.
  const show = v => {
    if (typeof v === 'string') return v
    try {
      if (v instanceof NativeError) return stackOf(v) || NativeString(v)
      if (typeof v === 'object' && v !== null) return encode(v) ?? NativeString(v)
      return NativeString(v)
    } catch {
      return '[value without a text]'
    }
  }
  const log = prefix => (...args) => {
    let text = prefix
    for (let i = 0; i < args.length; i++) text += (i ? ' ' : '') + show(args[i])
    host('log', text)
  }
  define('console', {log: log(''), info: log(''), debug: log(''), trace: log(''), warn: log('[warn] '), error: log('[error] ')})

  // Text and bytes.
  define('btoa', text => {
    text = NativeString(text)
    const bytes = new NativeUint8Array(text.length)
    for (let i = 0; i < text.length; i++) {
      const c = text.charCodeAt(i)
      if (c > 255) throw new NativeTypeError('btoa: a character is outside Latin-1')
      bytes[i] = c
    }
    return toBase64(bytes)
  })
  define('atob', text => {
    const bytes = fromBase64(NativeString(text).replace(/[ \t\n\f\r]/g, ''))
    if (bytes === undefined) throw new NativeTypeError('atob: the text is not valid base64')
    let out = ''
    for (let i = 0; i < bytes.length; i++) out += fromCharCode(bytes[i])
    return out
  })
  define('TextEncoder', class TextEncoder {
    get encoding() { return 'utf-8' }
    encode(text = '') {
      text = NativeString(text)
      const out = new NativeUint8Array(text.length * 3)
      let n = 0
      for (let i = 0; i < text.length; i++) {
        let c = text.codePointAt(i)
        if (c > 0xffff) i++
        if (c >= 0xd800 && c <= 0xdfff) c = 0xfffd
        if (c < 0x80) out[n++] = c
        else if (c < 0x800) { out[n++] = 0xc0 | c >> 6; out[n++] = 0x80 | c & 63 }
        else if (c < 0x10000) { out[n++] = 0xe0 | c >> 12; out[n++] = 0x80 | c >> 6 & 63; out[n++] = 0x80 | c & 63 }
        else { out[n++] = 0xf0 | c >> 18; out[n++] = 0x80 | c >> 12 & 63; out[n++] = 0x80 | c >> 6 & 63; out[n++] = 0x80 | c & 63 }
      }
      return out.slice(0, n)
    }
  })
  define('TextDecoder', class TextDecoder {
    #fatal
    constructor(label = 'utf-8', {fatal = false} = {}) {
      if (!/^utf-?8$/i.test(label)) throw new RangeError('TextDecoder: only utf-8 is supported')
      this.#fatal = fatal
    }
    get encoding() { return 'utf-8' }
    decode(input) {
      const b = input === undefined ? new NativeUint8Array(0) : viewOf(input)
      let out = '', i = b[0] === 0xef && b[1] === 0xbb && b[2] === 0xbf ? 3 : 0
      while (i < b.length) {
        const first = b[i++]
        if (first < 0x80) { out += fromCharCode(first); continue }
        let more = first >= 0xc2 && first < 0xe0 ? 1 : first >= 0xe0 && first < 0xf0 ? 2 : first >= 0xf0 && first < 0xf5 ? 3 : 0
        let c = first & 0x3f >> more, ok = more > 0
        let low = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80, high = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf
        for (; ok && more > 0; more--) {
          if (i < b.length && b[i] >= low && b[i] <= high) c = c << 6 | b[i++] & 63
          else ok = false
          low = 0x80; high = 0xbf
        }
        if (!ok && this.#fatal) throw new NativeTypeError('TextDecoder: the bytes are not valid UTF-8')
        out += ok ? fromCodePoint(c) : '\ufffd'
      }
      return out
    }
  })
  const get = uncurry(mapGet), put = uncurry(mapSet)
  const clone = (v, seen) => {
    if (typeof v === 'function' || typeof v === 'symbol') throw new NativeTypeError('structuredClone: a ' + typeof v + ' can\'t be cloned')
    if (typeof v !== 'object' || v === null) return v
    const known = get(seen, v)
    if (known !== undefined) return known
    const keep = c => { put(seen, v, c); return c }
    if (isArray(v)) {
      const out = keep([])
      out.length = v.length
      for (const k of keys(v)) out[k] = clone(v[k], seen)
      return out
    }
    if (v instanceof NativeDate) return keep(new NativeDate(+v))
    if (v instanceof NativeRegExp) return keep(new NativeRegExp(v.source, v.flags))
    if (v instanceof NativeMap) {
      const out = keep(new NativeMap())
      for (const [k, e] of v) out.set(clone(k, seen), clone(e, seen))
      return out
    }
    if (v instanceof NativeSet) {
      const out = keep(new NativeSet())
      for (const e of v) out.add(clone(e, seen))
      return out
    }
    if (v instanceof NativeArrayBuffer) return keep(v.slice(0))
    if (isView(v)) {
      const buffer = clone(v.buffer, seen)
      return keep(v instanceof DataView ? new DataView(buffer, v.byteOffset, v.byteLength) : new v.constructor(buffer, v.byteOffset, v.length))
    }
    if (v instanceof NativeError) {
      const out = keep(create(getPrototypeOf(v)))
      for (const k of ['message', 'stack', 'cause']) if (apply(hasOwn, v, [k])) defineProperty(out, k, {value: clone(v[k], seen), writable: true, configurable: true})
      return out
    }
    if (v instanceof NativePromise || apply(tagOf, v, []) === '[object WeakMap]') throw new NativeTypeError('structuredClone: the value can\'t be cloned')
    const out = keep({})
    for (const k of keys(v)) defineProperty(out, k, {value: clone(v[k], seen), writable: true, configurable: true, enumerable: true})
    return out
  }
  define('structuredClone', v => clone(v, new NativeMap()))

  return {
    space,
    reply(id, ok, text) {
      const p = pending[id]
      delete pending[id]
      if (p === undefined) return
      if (!ok) { // whose stack would be that of this function
        const e = new NativeError(text)
        e.stack = NativeString(e)
        return p.reject(e)
      }
      let value
      try { value = decode(text) } catch (e) { return p.reject(e) }
      p.resolve(value)
    },
    fire(id) {
      const t = timers[id]
      if (t === undefined) return
      if (!t.repeat) delete timers[id]
      try { apply(t.f, undefined, t.args) } catch (e) { host('fail', ...describe(e)) }
    },
    run(f, promise) {
      ;(async () => {
        let text
        try {
          const value = await (typeof f === 'function' && !promise ? f() : f)
          text = promise ? undefined : encode(value)
        } catch (e) {
          host('fail', ...describe(e))
          return
        }
        host('done', text)
      })()
    },
  }
})()
