// Special tokens of the files beside a tokenizer.json, in transformers' order of precedence.
#include "text/tokenizer/special_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "base/strings.h"
#include "io/json.h"
#include "text/parts/component.h"

namespace hone::text {
namespace {

using OrderedJson = nlohmann::ordered_json;
using NamedTokens = std::vector<std::pair<std::string, OrderedJson>>;

constexpr const char* kExtra = "extra_special_tokens";
constexpr const char* kFormerExtra = "additional_special_tokens";
constexpr const char* kDecoder = "added_tokens_decoder";
constexpr std::array<const char*, 7> kNames = {"bos_token", "eos_token", "unk_token", "sep_token",
                                               "pad_token", "cls_token", "mask_token"};

bool is_name(const std::string& key) { return std::find(kNames.begin(), kNames.end(), key) != kNames.end(); }

struct File {
  std::string where;
  OrderedJson json = OrderedJson::object();
};

File read_file(const Files& files, const char* name, const std::string& folder) {
  File file{(std::filesystem::path(folder) / name).string()};
  for (const auto& [known, content] : files)
    if (known == name) file.json = io::parse_ordered_json(content, file.where, kConfigFile);
  if (!file.json.is_object())
    fail_at(file.where, fmt::format("got {}, expected an object", file.json.type_name()));
  return file;
}

// "<s>" or {"content": "<s>", ...}. always: it is special whatever it says.
AddedToken read_token(const OrderedJson& value, const std::string& where, bool always) {
  AddedToken token;
  if (value.is_object())
    token = read_added_token(Json(value), where);
  else if (value.is_string())
    token.content = value.get<std::string>(), token.normalized = false;
  else
    fail_at(where, fmt::format("got {}, expected a string or an object with content", value.type_name()));
  if (always || !value.is_object() || !value.contains("special")) token.special = true;
  token.id = -1;
  return token;
}

// A value of a later file takes the earlier one's place.
void put(NamedTokens& named, const std::string& name, const OrderedJson& value) {
  for (auto& [known, old] : named)
    if (known == name) return void(old = value);
  named.emplace_back(name, value);
}

// The three files' keys, merged.
struct Merged {
  NamedTokens named, own;  // own: what only some models have
  std::optional<OrderedJson> extra;
  std::string extra_from;
  bool former = false;  // extra is additional_special_tokens of the map
  void take_config(const File& config);
  void take_map(const File& map);
  void take_named_extra();
};

// extra_special_tokens may be an object: then its members have names of their own.
void Merged::take_named_extra() {
  if (!extra || !extra->is_object()) return;
  for (const auto& [name, value] : extra->items()) put(own, name, value);
  extra.reset();
}

void Merged::take_config(const File& config) {
  for (const char* name : kNames)
    if (const auto found = config.json.find(name); found != config.json.end()) put(named, name, *found);
  extra_from = config.where;
  if (config.json.contains(kExtra)) extra = config.json[kExtra];
  if (config.json.contains(kFormerExtra) && (!extra || extra->empty())) extra = config.json[kFormerExtra];
  for (const auto& [key, value] : config.json.items())
    if (!is_name(key) && key.ends_with("_token") && value.is_string()) put(own, key, value);
  take_named_extra();
}

void Merged::take_map(const File& map) {
  NamedTokens before = std::move(own);
  own.clear();
  const OrderedJson* additional = nullptr;
  for (const auto& [key, value] : map.json.items()) {
    if (is_name(key)) put(named, key, value);
    else if (key == kFormerExtra) additional = &value;
    else if (key == kExtra && value.is_array() && extra && extra->is_array())
      for (const OrderedJson& token : value) {
        if (std::find(extra->begin(), extra->end(), token) == extra->end()) extra->push_back(token);
      }
    else if (key == kExtra) extra = value, extra_from = map.where;
    else if (key.ends_with("_token") && (value.is_string() || value.is_object())) put(own, key, value);
  }
  take_named_extra();
  for (const auto& [name, value] : before) put(own, name, value);
  if (!extra && additional) extra = *additional, extra_from = map.where, former = true;
}

std::vector<AddedToken> read_list(const OrderedJson& list, const std::string& where) {
  std::vector<AddedToken> tokens;
  if (list.is_null()) return tokens;
  if (!list.is_array()) fail_at(where, fmt::format("got {}, expected a list of tokens", list.type_name()));
  for (std::size_t i = 0; i < list.size(); ++i)
    tokens.push_back(read_token(list[i], fmt::format("{}[{}]", where, i), false));
  return tokens;
}

std::vector<AddedToken> in_order(std::map<std::int64_t, AddedToken> by_id) {
  std::vector<AddedToken> tokens;
  for (auto& [id, token] : by_id) {
    token.id = id;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::vector<AddedToken> read_decoder(const File& config) {
  std::map<std::int64_t, AddedToken> by_id;
  const OrderedJson& decoder = config.json[kDecoder];
  if (!decoder.is_object()) return {};
  for (const auto& [id, token] : decoder.items()) {
    const auto number = parse_int(id);
    if (!number || *number < 0 || *number >= kMaxId)
      fail_at(config.where + ": " + kDecoder, fmt::format("got the id {}", hone::quoted(id)));
    by_id[*number] = read_added_token(Json(token), fmt::format("{}: {}.{}", config.where, kDecoder, id));
  }
  return in_order(std::move(by_id));
}

// added_tokens.json, of transformers before tokenizer_config.json had them: {"<x>": 98}.
std::vector<AddedToken> read_added(const File& file, const std::set<std::string>& special) {
  std::map<std::int64_t, AddedToken> by_id;
  for (const auto& [content, id] : file.json.items()) {
    const std::int64_t number = id.is_number_integer() ? id.get<std::int64_t>() : -1;
    if (number < 0 || number >= kMaxId)
      fail_at(file.where + ": " + content, fmt::format("got {}, expected the id of a token", id.dump()));
    AddedToken token;
    token.content = content;
    token.special = special.contains(content);
    token.normalized = !token.special;
    by_id[number] = std::move(token);
  }
  return in_order(std::move(by_id));
}

void refuse_split(const File& config) {
  if (!get_bool(Json(config.json), "split_special_tokens", config.where, false)) return;
  throw Error(ErrorKind::config, config.where + ": split_special_tokens: got true, expected false: special tokens in a "
                                                "text, as chat templates write them, are always tokens here")
      .hint("remove it where that is meant");
}

}  // namespace

const AddedToken* SpecialConfig::find(const std::string& name) const {
  const auto found = std::find_if(named.begin(), named.end(), [&](const auto& one) { return one.first == name; });
  return found == named.end() ? nullptr : &found->second;
}

SpecialConfig read_special_config(const Files& files, const std::string& where) {
  const File config = read_file(files, "tokenizer_config.json", where);
  refuse_split(config);
  Merged merged;
  merged.take_config(config);
  const bool legacy = !config.json.contains(kDecoder);
  if (legacy) merged.take_map(read_file(files, "special_tokens_map.json", where));
  SpecialConfig made;
  const auto take = [&](const std::string& name, const OrderedJson& value) {
    if (value.is_null()) return;
    made.named.emplace_back(name, read_token(value, config.where + ": " + name, true));
  };
  for (const char* name : kNames)
    for (const auto& [known, value] : merged.named)
      if (known == name) take(name, value);
  if (merged.extra) made.extra = read_list(*merged.extra, merged.extra_from + ": " + kExtra);
  std::set<std::string> special;  // as transformers has it: without those that only the map calls additional
  for (const auto& [name, token] : made.named) special.insert(token.content);
  if (!merged.former)
    for (const AddedToken& token : made.extra) special.insert(token.content);
  for (const auto& [name, value] : merged.own) take(name, value);
  made.listed = legacy ? read_added(read_file(files, "added_tokens.json", where), special) : read_decoder(config);
  return made;
}

}  // namespace hone::text
