'use strict'
// The globals of a script of exec, besides the namespace "tools". `values` and `names` are JSON that the host puts before this text.
const {parse, stringify} = JSON, {isArray} = Array, {freeze} = Object
const NativeError = Error, NativeTypeError = TypeError, NativeString = String
const define = (name, value) => Object.defineProperty(globalThis, name, {value, writable: true, configurable: true, enumerable: false})

define('ALL_TOOLS', freeze(parse(names).map(freeze)))

define('text', v => {
  const words = typeof v === 'string' ? v : typeof v === 'object' && v !== null ? stringify(v) : NativeString(v)
  host.emit('text', words ?? NativeString(v))
})

const dataURL = /^data:([^;,]+)(?:;[^;,]*)*;base64,([A-Za-z0-9+/=\s]*)$/
const media = (what, v) => {
  if (typeof v === 'object' && v !== null) {
    if (typeof v.data === 'string' && typeof v.mimeType === 'string') return {media_type: v.mimeType, data: v.data}
    v = v[what + '_url']
    if (typeof v === 'object' && v !== null) v = v.url
  }
  if (typeof v !== 'string') throw new NativeTypeError(what + ' expects a data: URL, an object with ' + what + '_url, or an MCP ' + what + ' block')
  if (/^https?:/i.test(v)) throw new NativeError('Tool call failed: remote ' + what + ' URLs are not supported in tool outputs. Pass a base64 data URI instead')
  const m = dataURL.exec(v)
  if (m === null) throw new NativeTypeError(what + ' expects a data: URL with base64 content')
  return {media_type: m[1], data: m[2]}
}
const details = ['auto', 'low', 'high', 'original']
define('image', (v, detail) => {
  detail ??= typeof v === 'object' && v !== null ? v.detail : undefined
  if (detail !== undefined && detail !== null && !details.includes(detail)) {
    throw new NativeError('image detail must be one of: auto, low, high, original')
  }
  host.emit('media', {...media('image', v), detail: detail ?? ''})
})
define('audio', v => { host.emit('media', media('audio', v)) })

const stored = parse(values)
let room = limit
for (const key in stored) room -= key.length + stringify(stored[key]).length
define('store', (key, value) => {
  if (typeof key !== 'string') throw new NativeTypeError('the key of a stored value must be a string')
  const json = stringify(value)
  if (json === undefined && value !== undefined) throw new NativeError('failed to serialize JavaScript value: expected value at line 1 column 1')
  const was = key in stored ? key.length + stringify(stored[key]).length : 0
  const will = json === undefined ? 0 : key.length + json.length
  if (room + was - will < 0) throw new NativeError('stored values are limited to ' + limit + ' characters of JSON per thread')
  room += was - will
  if (json === undefined) delete stored[key]
  else stored[key] = parse(json)
  host.emit('store', {key, value: json === undefined ? null : json})
})
define('load', key => key in stored ? parse(stringify(stored[key])) : undefined)
Object.setPrototypeOf(stored, null)

define('notify', v => { host.emit('notify', typeof v === 'string' ? v : typeof v === 'object' && v !== null ? stringify(v) : NativeString(v)) })
define('yield_control', () => { host.emit('yield') })
define('exit', () => { host.exit() })
