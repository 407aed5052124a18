"""FastAPI: /hello is a small object, /json an object of 10 KB that a model describes, /events 100 server-sent events."""

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel


class Item(BaseModel):
    id: int
    name: str
    price: float
    tags: list[str]
    in_stock: bool


# 107 items are 10 KB of JSON.
ITEMS = [
    Item(id=1000 + n, name=f"Item {1000 + n} of the list", price=n * 1.25, tags=["red", "small"], in_stock=n % 2 == 0)
    for n in range(107)
]
app = FastAPI()


@app.get("/hello")
async def hello():
    return {"message": "Hello from FastAPI"}


@app.get("/json")
async def items() -> list[Item]:
    return ITEMS


async def hundred_events():
    for number in range(100):
        yield f"id: {number}\ndata: something happened, for the time no. {number}\n\n"


@app.get("/events")
async def events():
    return StreamingResponse(hundred_events(), media_type="text/event-stream")
