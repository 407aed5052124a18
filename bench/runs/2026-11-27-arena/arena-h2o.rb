# The dynamic answers in H2O: the sum of the numbers of the query and of the body, JSON of a data set that is read once,
# and a fixed answer. `cargo xtask bench arena` fills in the file of the data set.

ITEMS = JSON.parse(File.open("WORK/arena/data/items.json").read)
TEXT = {"content-type" => "text/plain"}
ITEMS_TYPE = {"content-type" => "application/json"}

def values(query)
  query.split("&").map { |pair| pair.split("=") }
end

def sum(env)
  total = 0
  values(env["QUERY_STRING"]).each { |_, value| total += value.to_i }
  total += env["rack.input"].read.to_i if env["REQUEST_METHOD"] == "POST"
  [200, TEXT, [total.to_s]]
end

# With JSON.generate a response takes eight times as long, so it is for what has to be escaped only.
ESCAPED = Regexp.new("[\"\\\\\\x00-\\x1f]")

def quoted(text)
  ESCAPED.match(text) ? JSON.generate([text])[1..-2] : "\"" + text + "\""
end

def item(item, factor)
  price, quantity, rating = item["price"], item["quantity"], item["rating"]
  tags = item["tags"].map { |tag| quoted(tag) }.join(",")
  name, category = quoted(item["name"]), quoted(item["category"])
  head = "{\"id\":#{item["id"]},\"name\":#{name},\"category\":#{category},\"price\":#{price},\"quantity\":#{quantity}"
  rest = ",\"active\":#{item["active"]},\"tags\":[#{tags}],\"rating\":{\"score\":#{rating["score"]},\"count\":#{rating["count"]}}"
  head + rest + ",\"total\":#{price * quantity * factor}}"
end

def list(env, count)
  return [404, TEXT, ["no such number of items"]] if count > ITEMS.length
  pair = values(env["QUERY_STRING"]).find { |name, _| name == "m" }
  return [400, TEXT, ["no factor"]] unless pair
  factor = pair[1].to_i
  items = ITEMS[0, count].map { |chosen| item(chosen, factor) }
  [200, ITEMS_TYPE, ["{\"items\":[" + items.join(",") + "],\"count\":#{count}}"]]
end

Proc.new do |env|
  path = env["PATH_INFO"]
  if path == "/baseline11" || path == "/baseline2"
    sum(env)
  elsif path[0, 6] == "/json/"
    list(env, path[6..-1].to_i)
  elsif path == "/pipeline"
    [200, TEXT, ["ok"]]
  else
    [404, TEXT, ["not found"]]
  end
end
