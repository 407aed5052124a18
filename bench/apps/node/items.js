// 107 items are 10 KB of JSON: the same as those of python/fastapi_app.py and of go/gin.
module.exports = Array.from({ length: 107 }, (_, n) => ({
  id: 1000 + n,
  name: `Item ${1000 + n} of the list`,
  price: n * 1.25,
  tags: ['red', 'small'],
  in_stock: n % 2 === 0,
}));
