package record

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image/jpeg"
	"time"

	"github.com/at-wat/ebml-go/webm"
	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"

	"github.com/gantry-agent/gantry/plugins/browser/internal/storage"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

const (
	// maxVideoFrames is the number of pictures of a video.
	maxVideoFrames = 3000
	// maxVideoBytes is the maximum size of all of them.
	maxVideoBytes = 128 << 20
	// videoInterval is the time between two of them, at least.
	videoInterval = 100 * time.Millisecond
	// videoTime limits how long they may take to become a video.
	videoTime = 2 * time.Minute
	// videoWidth and videoHeight are its maximum size in pixels.
	videoWidth, videoHeight = 1024, 768
	// keyInterval is the number of pictures from one that is complete to the next.
	keyInterval = 50
)

// video collects the pictures that the browser sends of a tab.
type video struct {
	tab    *target.Tab // that is filmed; nil: none
	stop   func()      // ends its pictures
	frames []videoFrame
	bytes  int
}

type videoFrame struct {
	jpeg []byte
	at   time.Time
}

// Film films a tab from now on, instead of the one before. Without [Video] among the kinds, it does nothing.
func (r *Recorder) Film(ctx context.Context, tab *target.Tab) error {
	if !r.has(Video) {
		return nil
	}
	r.mu.Lock()
	if r.video.tab == tab {
		r.mu.Unlock()
		return nil
	}
	stop := r.video.stop
	r.video.tab, r.video.stop = tab, nil
	r.mu.Unlock()
	if stop != nil {
		stop()
	}
	stop, err := tab.Cast(ctx, target.CastOptions{Width: videoWidth, Height: videoHeight, Quality: 60}, func(f target.Frame) { r.filmed(f, tab) })
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.video.tab = nil // the next call tries again
		return err
	}
	r.video.stop = stop
	return nil
}

// filmed takes a picture that the browser has sent.
func (r *Recorder) filmed(f target.Frame, tab *target.Tab) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := &r.video
	if n := len(v.frames); tab != v.tab || n > 0 && f.At.Sub(v.frames[n-1].at) < videoInterval || n >= maxVideoFrames || v.bytes+len(f.Data) > maxVideoBytes {
		return
	}
	v.frames, v.bytes = append(v.frames, videoFrame{f.Data, f.At}), v.bytes+len(f.Data)
}

// encoder is what makes a video of pictures: the browser, which has an encoder in its sandbox.
const encoder = `((width, height) => {
  const chunks = [];
  let failed = '';
  const e = new VideoEncoder({error: x => { failed = x.message; }, output: c => {
    const b = new Uint8Array(c.byteLength);
    c.copyTo(b);
    let s = '';
    for (let i = 0; i < b.length; i += 8192) s += String.fromCharCode(...b.subarray(i, i + 8192));
    chunks.push({at: c.timestamp, key: c.type === 'key', data: btoa(s)});
  }});
  e.configure({codec: 'vp8', width, height, bitrate: 1_500_000, framerate: 10});
  const canvas = new OffscreenCanvas(width, height), to = canvas.getContext('2d');
  const take = () => { if (failed) throw new Error(failed); return JSON.stringify(chunks.splice(0)); };
  globalThis.addPicture = async (data, timestamp, keyFrame) => {
    const image = await createImageBitmap(new Blob([Uint8Array.from(atob(data), c => c.charCodeAt(0))], {type: 'image/jpeg'}));
    const scale = Math.min(width / image.width, height / image.height);
    to.fillRect(0, 0, width, height);
    to.drawImage(image, 0, 0, image.width * scale, image.height * scale);
    image.close();
    const f = new VideoFrame(canvas, {timestamp});
    e.encode(f, {keyFrame});
    f.close();
    if (e.encodeQueueSize > 4) await new Promise(done => e.addEventListener('dequeue', done, {once: true}));
    return take();
  };
  globalThis.endVideo = async () => { await e.flush(); return take(); };
})`

// chunk is a part of a video.
type chunk struct {
	At   int64  `json:"at"` // microseconds
	Key  bool   `json:"key"`
	Data []byte `json:"data"`
}

// encodeVideo ends the pictures and returns the video as WebM. The caller has not locked r.mu: the browser, which answers, may wait for it.
func (r *Recorder) encodeVideo(ctx context.Context) ([]byte, error) {
	r.mu.Lock()
	stop, frames := r.video.stop, r.video.frames
	r.video = video{}
	r.mu.Unlock()
	if stop != nil {
		stop()
	}
	if len(frames) == 0 {
		return nil, errors.New("there are no pictures")
	}
	size, err := jpeg.DecodeConfig(bytes.NewReader(frames[0].jpeg))
	if err != nil {
		return nil, err
	}
	width, height := max(2, size.Width&^1), max(2, size.Height&^1)
	ctx, cancel := context.WithTimeoutCause(ctx, videoTime, fmt.Errorf("it took longer than %v", videoTime))
	defer cancel()
	var out bytes.Buffer
	tracks, err := webm.NewSimpleBlockWriter(nopCloser{&out}, []webm.TrackEntry{{
		Name: "Browser", TrackNumber: 1, TrackUID: 1, CodecID: "V_VP8", TrackType: 1, Video: &webm.Video{PixelWidth: uint64(width), PixelHeight: uint64(height)},
	}})
	if err != nil {
		return nil, err
	}
	err = storage.Secure(ctx, r.b, func(ctx context.Context, tab *target.Tab) error {
		run := func(code string) error {
			v, err := protocol.Call(ctx, tab.Session, runtime.Evaluate, runtime.EvaluateParams{Expression: code, AwaitPromise: new(true), ReturnByValue: new(true)})
			if err != nil {
				return err
			}
			if v.ExceptionDetails != nil {
				if x := v.ExceptionDetails.Exception; x != nil {
					return errors.New(x.Description)
				}
				return errors.New(v.ExceptionDetails.Text)
			}
			var text string
			var list []chunk
			if json.Unmarshal(v.Result.Value, &text) != nil || text == "" {
				return nil // it returns nothing
			}
			if err := json.Unmarshal([]byte(text), &list); err != nil {
				return err
			}
			for _, c := range list {
				if _, err := tracks[0].Write(c.Key, c.At/1000, c.Data); err != nil {
					return err
				}
			}
			return nil
		}
		if err := run(fmt.Sprintf("%s(%d, %d)", encoder, width, height)); err != nil {
			return err
		}
		for i, f := range frames {
			at := f.at.Sub(frames[0].at).Microseconds()
			if err := run(fmt.Sprintf("addPicture('%s', %d, %t)", base64.StdEncoding.EncodeToString(f.jpeg), at, i%keyInterval == 0)); err != nil {
				return fmt.Errorf("picture %d: %w", i+1, err)
			}
		}
		return run("endVideo()")
	})
	err = errors.Join(err, tracks[0].Close())
	return out.Bytes(), err
}

type nopCloser struct{ *bytes.Buffer }

func (nopCloser) Close() error { return nil }
