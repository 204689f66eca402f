"""A clock for gantry: an example of a tool plugin in Python."""

import asyncio
import datetime

from gantry_plugin import Attribute, Invalid, Plugin


async def configured(plugin):
    if abs(plugin.config["offset_minutes"]) >= 24 * 60:
        raise Invalid("no place is a day away", "offset_minutes", "Use a number between -1439 and 1439.")


plugin = Plugin("clock", "1.0.0", "Tells the time and counts.", configured=configured, config=[
    Attribute("style", default="iso", allowed=["iso", "words"], description="How the time is written."),
    Attribute("offset_minutes", "number", default=0, description="Minutes east of Greenwich, where a call names none."),
])


@plugin.tool("now", "Tells the time.", read_only=True, parallel_safe=True, properties={
    "offset_minutes": {"type": "integer", "description": "minutes east of Greenwich"},
})
async def now(call, args):
    minutes = args.get("offset_minutes", plugin.config["offset_minutes"])
    zone = datetime.timezone(datetime.timedelta(minutes=minutes))  # refuses a day and more: an error for the model
    time = datetime.datetime.now(zone)
    return time.isoformat() if plugin.config["style"] == "iso" else time.strftime("%A, %H:%M:%S")


@plugin.tool("count", "Counts, showing each number, and returns the last one.", parallel_safe=True, required=["to"], properties={
    "to": {"type": "integer", "description": "how far"},
    "pace_ms": {"type": "integer", "description": "milliseconds per number; default 1000"},
})
async def count(call, args):
    n = 0
    try:
        while n < args["to"]:
            n += 1
            await call.output(f"{n}\n")
            await asyncio.sleep(args.get("pace_ms", 1000) / 1000)
    except asyncio.CancelledError:  # the host asked to stop; what we return is still the result
        return f"stopped at {n}"
    return str(n)


if __name__ == "__main__":
    plugin.main()
