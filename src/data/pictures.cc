// Pictures in records.
#include "data/pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/strings.h"
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
    const std::string type = part.value("type", "");
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

Conversation for_template(Conversation chat, const text::ChatTemplate& chat_template, bool reads_pictures) {
  if (reads_pictures && chat_template.mentions("image")) chat.messages = with_text_parts(chat.messages);
  return chat;
}

std::vector<PlacedPicture> widen_places(std::vector<std::int32_t>& ids, std::vector<std::int32_t>* labels,
                                        std::vector<std::size_t>* seams, const std::vector<PictureFile>& pictures,
                                        const PictureReader& reader, const std::string& place) {
  const std::int32_t token = reader.input().token;
  const auto places = static_cast<std::size_t>(std::count(ids.begin(), ids.end(), token));
  if (places != pictures.size())
    throw Error(ErrorKind::data, fmt::format("{}: {} and {} of token {}, which stands for pictures; expected as many",
                                             place, counted(std::ssize(pictures), "picture"),
                                             counted(static_cast<std::int64_t>(places), "place"), token))
        .hint("the chat template writes it for parts {\"type\": \"image\"}; texts have it where a picture belongs");
  std::vector<PlacedPicture> placed;
  std::vector<std::int32_t> wide_ids, wide_labels;
  std::vector<std::size_t> moved;  // where each token comes to stand
  for (std::size_t i = 0; i < ids.size(); ++i) {
    moved.push_back(wide_ids.size());
    std::size_t count = 1;
    const bool is_picture = ids[i] == token;
    if (is_picture) {
      const PictureFile& file = pictures[placed.size()];
      count = during(place, [&] { return static_cast<std::size_t>(reader.tokens(reader.grid(file))); });
      placed.push_back({wide_ids.size(), count, file});
    }
    wide_ids.insert(wide_ids.end(), count, ids[i]);
    if (labels) wide_labels.insert(wide_labels.end(), count, is_picture ? -100 : (*labels)[i]);
  }
  ids = std::move(wide_ids);
  if (labels) *labels = std::move(wide_labels);
  if (seams)
    for (std::size_t& seam : *seams) seam = moved[seam];
  return placed;
}

}  // namespace hone::data
