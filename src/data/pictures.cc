// Pictures in records.
#include "data/pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/strings.h"
#include "data/indexed_line.h"
#include "images/source.h"
#include "io/json.h"
#include "text/chat/chat_printed.h"

namespace hone::data {
namespace {

using json = nlohmann::ordered_json;

constexpr std::string_view kPlaceholder = "<image>";
constexpr const char* kSources[] = {"image", "url", "path", "base64", "image_url"};

json text_part(std::string text) { return {{"type", "text"}, {"text", std::move(text)}}; }

bool has_placeholder(const json& messages) {
  const auto in_text = [](const json& text) {
    return text.is_string() && text.get_ref<const std::string&>().find(kPlaceholder) != std::string::npos;
  };
  return std::any_of(messages.begin(), messages.end(), [&](const json& message) {
    const auto content = message.find("content");
    return content != message.end() && in_text(*content);
  });
}

// "<image>\nWhat is it?": the line ends beside a picture belong to its place.
json split_at_placeholders(const std::string& text) {
  json parts = json::array();
  std::size_t from = 0;
  const auto add_text = [&](std::size_t end, bool before_picture) {
    std::string_view piece = std::string_view(text).substr(from, end - from);
    if (from > 0 && piece.starts_with('\n')) piece.remove_prefix(1);
    if (before_picture && piece.ends_with('\n')) piece.remove_suffix(1);
    if (!piece.empty()) parts.push_back(text_part(std::string(piece)));
  };
  for (std::size_t at; (at = text.find(kPlaceholder, from)) != std::string::npos; from = at + kPlaceholder.size()) {
    add_text(at, /*before_picture=*/true);
    parts.push_back(image_part());
  }
  add_text(text.size(), /*before_picture=*/false);
  return parts;
}

// Before what the user says first.
void put_first(json& messages, std::size_t pictures, const Place& place) {
  const auto user = std::find_if(messages.begin(), messages.end(),
                                 [](const json& message) { return message.value("role", "") == "user"; });
  if (user == messages.end())
    throw Error(ErrorKind::data, place.text() + ": pictures, but no message of the user's to put them before");
  json parts = json::array();
  for (std::size_t i = 0; i < pictures; ++i) parts.push_back(image_part());
  json& content = (*user)["content"];
  if (content.is_string())
    parts.push_back(text_part(content.get<std::string>()));
  else if (content.is_array())
    parts.insert(parts.end(), content.begin(), content.end());
  content = std::move(parts);
}

// Goes through the parts of all messages.
class Placing {
 public:
  Placing(std::vector<PictureFile> field, const std::filesystem::path& folder, const Place& place)
      : field_(std::move(field)), folder_(folder), place_(place) {}

  void go_through(json& messages) {
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const auto content = messages[i].find("content");
      if (content == messages[i].end() || !content->is_array()) continue;
      for (std::size_t part = 0; part < content->size(); ++part)
        take((*content)[part], fmt::format("message {}, part {}", i + 1, part + 1));
    }
  }
  std::size_t places() const { return placed_.size() + open_; }
  std::vector<PictureFile> placed() {
    if (next_ != field_.size() || open_ > 0)
      throw Error(ErrorKind::data, fmt::format("{}: {} for {} of the record's own; expected as many", place_.text(),
                                               counted(static_cast<std::int64_t>(next_ + open_), "place"),
                                               counted(std::ssize(field_), "picture")));
    return std::move(placed_);
  }

 private:
  void take(json& part, const std::string& where) {
    if (!part.is_object()) return;
    for (auto entry = part.begin(); entry != part.end();)  // tables have all keys in all parts
      entry = entry.value().is_null() ? part.erase(entry) : std::next(entry);
    const json kind = part.value("type", json());
    const std::string type = kind.is_string() ? kind.get<std::string>() : "";
    if (type == "audio" || type == "video" || type == "input_audio" || type == "video_url")
      throw Error(ErrorKind::data,
                  fmt::format("{}: {}: {}; these models read texts and pictures only", place_.text(), where, type));
    if (type != "image" && type != "image_url") return;
    json value;
    for (const char* key : kSources)
      if (const auto found = part.find(key); found != part.end()) value = source_of(*found, key);
    part = image_part();
    if (!value.is_null())
      placed_.push_back(picture_of(value, folder_, {where, place_}));
    else if (next_ < field_.size())
      placed_.push_back(field_[next_++]);
    else
      ++open_;
  }

  static json source_of(const json& value, std::string_view key) {
    if (key == "image_url" && value.is_object()) return value.value("url", json());
    if (key == "base64" && value.is_string()) return "data:image/png;base64," + value.get<std::string>();
    return value;
  }

  std::vector<PictureFile> field_, placed_;
  std::size_t next_ = 0, open_ = 0;  // open: places for which there is no picture
  const std::filesystem::path& folder_;
  const Place& place_;
};

}  // namespace

json image_part() { return {{"type", "image"}, {text::kPlacedPicture, true}}; }

std::filesystem::path picture_folder(const std::string& file, const std::string& given) {
  return given.empty() ? std::filesystem::path(file).parent_path() : std::filesystem::path(given);
}

PictureFile picture_of(const json& value, const std::filesystem::path& folder, const FieldPlace& where) {
  constexpr std::string_view scheme = "file://";
  const auto path_of = [&](const json& path) {
    std::string text = path.get<std::string>();
    if (text.starts_with(scheme)) text.erase(0, scheme.size());
    return (folder / std::filesystem::path(text)).lexically_normal().string();
  };
  const auto is_path = [](const json& one) {
    if (!one.is_string()) return false;
    const std::string& text = one.get_ref<const std::string&>();
    return !text.empty() && !text.starts_with("data:") && !text.starts_with("http://") && !text.starts_with("https://");
  };
  if (is_path(value)) return {.path = path_of(value)};
  if (value.is_object() && value.value("bytes", json()).is_null() && is_path(value.value("path", json())))
    return {.path = path_of(value["path"])};
  try {
    return {.bytes = images::picture_bytes(value, folder)};
  } catch (const Error& error) {
    throw Error(ErrorKind::data, fmt::format("{}: {}: {}", where.place.text(), where.field, error.what()));
  }
}

std::vector<PictureFile> pictures_of(const json& value, const std::filesystem::path& folder, const FieldPlace& where) {
  if (!value.is_array()) return {picture_of(value, folder, where)};
  std::vector<PictureFile> all;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string field = fmt::format("{}[{}]", where.field, i);
    all.push_back(picture_of(value[i], folder, {field, where.place}));
  }
  return all;
}

std::vector<PictureFile> place_pictures(json& messages, std::vector<PictureFile> field,
                                        const std::filesystem::path& folder, const Place& place) {
  const std::size_t own = field.size();
  if (own > 0 && has_placeholder(messages))
    for (json& message : messages)
      if (const auto content = message.find("content"); content != message.end() && content->is_string())
        if (const std::string text = content->get<std::string>(); text.find(kPlaceholder) != std::string::npos)
          *content = split_at_placeholders(text);
  json placed = messages;
  Placing placing(field, folder, place);
  placing.go_through(placed);
  if (own == 0 || placing.places() > 0) {
    messages = std::move(placed);
    return placing.placed();
  }
  put_first(messages, own, place);
  Placing first(std::move(field), folder, place);
  first.go_through(messages);
  return first.placed();
}

std::string with_text_parts(const std::string& messages) {
  json list = json::parse(messages, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) return messages;
  for (json& message : list) {
    const std::string role = message.is_object() ? message.value("role", "") : "";
    const auto content = message.is_object() ? message.find("content") : message.end();
    if (content == message.end() || !content->is_string()) continue;
    if (role == "user" || role == "assistant" || role == "system")
      *content = json::array({text_part(content->get<std::string>())});
  }
  return list.dump();
}

namespace {

// Those that ask what a content is take texts as they are, as transformers gives them; Gemma 4's has parts nowhere but
// in turns.
bool takes_texts(const text::ChatTemplate& chat_template) {
  return chat_template.mentions("content'] is string") || chat_template.mentions("content\"] is string") ||
         chat_template.mentions("content is string");
}

}  // namespace

Conversation for_template(Conversation chat, const text::ChatTemplate& chat_template, bool reads_pictures) {
  if (reads_pictures && chat_template.mentions("image") && !takes_texts(chat_template))
    chat.messages = with_text_parts(chat.messages);
  return chat;
}

namespace {

constexpr const char *kAround = "<fake_token_around_image>", *kWhole = "<global-img>";
constexpr const char *kRowEnd = "[IMG_BREAK]", *kPictureEnd = "[IMG_END]";

// A token that only the words beside pictures have.
const char* mark_of(PictureWords words) {
  if (words == PictureWords::rows) return kRowEnd;
  if (words == PictureWords::named) return "<|image_start|>";
  return words == PictureWords::bracketed ? "<img>" : kAround;
}

// What stands in a text for a picture of tiles, each with one token, as in Idefics 3.
std::string tiled_words(const TileGrid& tiles, const std::string& token) {
  std::string text;
  for (std::int64_t row = 1; row <= tiles.rows; ++row) {
    for (std::int64_t column = 1; column <= tiles.columns; ++column)
      text += fmt::format("{}<row_{}_col_{}>{}", kAround, row, column, token);
    text += '\n';
  }
  return fmt::format("{}{}{}{}{}{}", text, tiles.rows > 0 ? "\n" : "", kAround, kWhole, token, kAround);
}

// The same in LFM2-VL.
std::string named_words(const TileGrid& tiles, const std::string& token) {
  std::string text;
  for (std::int64_t row = 1; row <= tiles.rows; ++row)
    for (std::int64_t column = 1; column <= tiles.columns; ++column)
      text += fmt::format("<|img_row_{}_col_{}|>{}", row, column, token);
  if (tiles.rows > 0 && !tiles.tiles_alone) text += "<|img_thumbnail|>";
  if (!tiles.tiles_alone) text += token;
  return fmt::format("<|image_start|>{}<|image_end|>", text);
}

// And in InternVL.
std::string bracketed_words(const TileGrid& tiles, const std::string& token) {
  std::string text;
  for (std::int64_t tile = 0; tile < tiles.tiles(); ++tile) text += token;
  return fmt::format("<img>{}</img>", text);
}

std::string words_of(PictureWords words, const TileGrid& tiles, const std::string& token) {
  if (words == PictureWords::named) return named_words(tiles, token);
  return words == PictureWords::bracketed ? bracketed_words(tiles, token) : tiled_words(tiles, token);
}

std::int32_t id_beside_pictures(const Tokenizer& tokenizer, const char* token) {
  if (const auto id = tokenizer.id_of(token)) return *id;
  throw Error(ErrorKind::config,
              fmt::format("the tokenizer has no token {}, which stands beside pictures in texts", token))
      .hint("the tokenizer and config.json must be of one model");
}

std::vector<std::int32_t> ids_of_words(const PictureInput& input, const TileGrid& tiles, const Tokenizer& tokenizer) {
  if (input.words == PictureWords::bracketed && input.before >= 0) return {input.before, input.token, input.after};
  const auto written = tokenizer.token_of(input.token);
  if (!written)
    throw Error(ErrorKind::config,
                fmt::format("the tokenizer has no token {}, which stands for pictures in texts", input.token))
        .hint("the tokenizer and config.json must be of one model");
  id_beside_pictures(tokenizer, mark_of(input.words));
  std::vector<std::int32_t> ids = tokenizer.encode(words_of(input.words, tiles, *written), /*special=*/false).ids;
  if (std::count(ids.begin(), ids.end(), input.token) != tiles.tiles())
    throw Error(ErrorKind::config, fmt::format("the tokenizer cuts up the token {}, which stands for pictures",
                                               hone::quoted(*written)));
  return ids;
}

// Puts one id, or a picture, behind another.
class Widening {
 public:
  Widening(PlacedTokens tokens, const PlaceWords& words) : tokens_(tokens), reader_(words.reader), words_(words) {}

  void keep(std::size_t i) {
    const bool is_frame = reader_.input().words == PictureWords::framed &&
                          (is(i + 1, reader_.input().token) || (i > 0 && is(i - 1, reader_.input().token)));
    add(tokens_.ids[i], 1, !tokens_.labels || is_frame ? -100 : (*tokens_.labels)[i]);
  }
  void put(const PictureFile& file) {
    const std::int32_t token = reader_.input().token;
    const PatchGrid grid = reader_.grid(file);
    if (reader_.input().joined)
      return put_tile(file, 0, static_cast<std::size_t>(reader_.tiles(file).joined_tokens(grid)));
    const PictureWords kind = reader_.input().words;
    if (kind == PictureWords::rows) return put_rows(file, grid);
    if (kind == PictureWords::none || kind == PictureWords::framed) return put_tile(file, 0, count_of(grid));
    const TileGrid tiles = reader_.tiles(file);
    std::uint64_t tile = 0;
    for (const std::int32_t id : ids_of_words(reader_.input(), tiles, words_.tokenizer)) {
      if (id != token) {
        add(id, 1, -100);
        continue;
      }
      const PatchGrid& own = tiles.grid_of(static_cast<std::int64_t>(tile), grid);
      put_tile(tile == 0 ? file : PictureFile(), tile, count_of(own));
      ++tile;
    }
  }
  std::size_t size() const { return ids_.size(); }
  std::vector<PlacedPicture> finish() {
    tokens_.ids = std::move(ids_);
    if (tokens_.labels) *tokens_.labels = std::move(labels_);
    return std::move(placed_);
  }

 private:
  bool is(std::size_t i, std::int32_t id) const { return i < tokens_.ids.size() && tokens_.ids[i] == id; }
  std::size_t count_of(const PatchGrid& grid) const { return static_cast<std::size_t>(reader_.tokens(grid)); }
  // Behind each row of tokens one that says so.
  void put_rows(const PictureFile& file, const PatchGrid& grid) {
    const std::int32_t between = id_beside_pictures(words_.tokenizer, kRowEnd),
                       last = id_beside_pictures(words_.tokenizer, kPictureEnd);
    const auto row = static_cast<std::size_t>(grid.columns / reader_.input().merged);
    put_tile(file, 0, count_of(grid));
    for (std::size_t i = placed_.back().begin + row; i < ids_.size(); i += row + 1) ids_[i] = between;
    ids_.back() = last;
  }
  void put_tile(const PictureFile& file, std::uint64_t tile, std::size_t count) {
    placed_.push_back({ids_.size(), count, file, tile});
    add(reader_.input().token, count, -100);
  }
  void add(std::int32_t id, std::size_t count, std::int32_t label) {
    ids_.insert(ids_.end(), count, id);
    if (tokens_.labels) labels_.insert(labels_.end(), count, label);
  }

  PlacedTokens tokens_;
  const PictureReader& reader_;
  const PlaceWords words_;
  std::vector<PlacedPicture> placed_;
  std::vector<std::int32_t> ids_, labels_;
};

}  // namespace

namespace {

void refuse_films_and_sounds(const PlacedTokens& tokens, const PlaceWords& words, const std::string& place) {
  const PictureInput& input = words.reader.input();
  for (const auto& [id, what] : {std::pair{input.film, "films"}, {input.sound, "sounds"}}) {
    if (id < 0 || std::find(tokens.ids.begin(), tokens.ids.end(), id) == tokens.ids.end()) continue;
    const std::string name = words.tokenizer.token_of(id).value_or(std::to_string(id));
    throw Error(ErrorKind::data, fmt::format("{}: {} stands for {}; these models read texts and pictures only", place,
                                             name, what))
        .hint("take it out of the text");
  }
}

}  // namespace

std::vector<PlacedPicture> widen_places(PlacedTokens tokens, const std::vector<PictureFile>& pictures,
                                        const PlaceWords& words, const std::string& place) {
  refuse_films_and_sounds(tokens, words, place);
  const std::int32_t token = words.reader.input().token;
  const auto places = static_cast<std::size_t>(std::count(tokens.ids.begin(), tokens.ids.end(), token));
  if (places != pictures.size())
    throw Error(ErrorKind::data, fmt::format("{}: {} and {} of token {}, which stands for pictures; expected as many",
                                             place, counted(std::ssize(pictures), "picture"),
                                             counted(static_cast<std::int64_t>(places), "place"), token))
        .hint("the chat template writes it for parts {\"type\": \"image\"}; texts have it where a picture belongs");
  if (pictures.empty()) return {};
  Widening wide(tokens, words);
  std::size_t next = 0;
  std::vector<std::size_t> moved;  // where each token comes to stand
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    moved.push_back(wide.size());
    if (tokens.ids[i] == token) during(place, [&] { wide.put(pictures[next++]); });
    else wide.keep(i);
  }
  if (tokens.seams)
    for (std::size_t& seam : *tokens.seams) seam = moved[seam];
  return wide.finish();
}

std::vector<DocPicture> doc_pictures(std::vector<PlacedPicture> placed,
                                     const std::shared_ptr<const PictureReader>& reader, const std::string& place) {
  std::vector<DocPicture> made;
  for (PlacedPicture& one : placed) {
    const auto file = one.tile > 0 && !made.empty() ? made.back().file
                                                    : std::make_shared<const PictureFile>(std::move(one.file));
    made.push_back({static_cast<std::int64_t>(one.begin), static_cast<std::int64_t>(one.tokens), file, reader,
                    static_cast<std::int64_t>(one.tile), place});
  }
  return made;
}

void check_still_there(const TokenStore& store, const std::string& path) {
  store.each_picture_path([&](std::string_view picture, std::int64_t doc) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(picture, ignored))
      throw Error(ErrorKind::data, fmt::format("{}:{}: {}: no such file any more", path, line_words(store.line(doc)),
                                               escape_for_terminal(std::string(picture))));
  });
}

}  // namespace hone::data
