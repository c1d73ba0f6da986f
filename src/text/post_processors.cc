// TemplateProcessing, ByteLevel, RobertaProcessing, BertProcessing and Sequence.
#include "text/post_processors.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "text/component.h"
#include "text/vocabulary.h"

namespace hone::text {
namespace {

// ["</s>", 2]
std::int32_t get_pair_id(const Json& config, const char* name, const std::string& where) {
  const Json& pair = get_list(config, name, where);
  if (pair.size() != 2 || !pair[0].is_string()) fail_at(where + "." + name, "expected [token, id]");
  return static_cast<std::int32_t>(get_int(Json{{"id", pair[1]}}, "id", where + "." + name, 0, kMaxId - 1));
}

std::vector<std::int32_t> special_ids(const Json& config, const std::string& name, const std::string& where) {
  const auto all = config.find("special_tokens");
  if (all == config.end() || !all->is_object() || !all->contains(name))
    fail_at(where,
            fmt::format("the template names the token {}, which special_tokens does not have", hone::quoted(name)));
  const std::string place = where + ".special_tokens." + name;
  std::vector<std::int32_t> ids;
  for (const Json& id : get_list((*all)[name], "ids", place))
    ids.push_back(static_cast<std::int32_t>(get_int(Json{{"id", id}}, "id", place, 0, kMaxId - 1)));
  return ids;
}

}  // namespace

PostProcessor::PostProcessor(const Json& config, const std::string& where) {
  if (!config.is_null()) add(config, where);
}

void PostProcessor::set_around(std::vector<std::vector<std::int32_t>> around, const std::string& where) {
  if (adds_tokens_) fail_at(where, "a second part that adds tokens; expected at most one");
  adds_tokens_ = true;
  around_ = std::move(around);
}

void PostProcessor::add_template(const Json& config, const std::string& where) {
  const Json& pieces = get_list(config, "single", where);
  std::vector<std::vector<std::int32_t>> around(1);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::string place = item_at(where, "single", i);
    if (!pieces[i].is_object() || pieces[i].size() != 1)
      fail_at(place, "expected {\"Sequence\": ..} or {\"SpecialToken\": ..}");
    const Json& piece = *pieces[i].begin();
    const std::string id = get_string(piece, "id", place);
    if (pieces[i].contains("Sequence")) {
      if (id != "A") fail_at(place, fmt::format("got sequence {}, expected A: there is one text", hone::quoted(id)));
      around.emplace_back();
    } else if (pieces[i].contains("SpecialToken")) {
      const auto ids = special_ids(config, id, where);
      around.back().insert(around.back().end(), ids.begin(), ids.end());
    } else {
      fail_at(place, "expected Sequence or SpecialToken");
    }
  }
  set_around(std::move(around), where);
}

void PostProcessor::add(const Json& config, const std::string& where) {
  const std::string type = type_of(config, where);
  if (type == "Sequence") {
    const Json& list = get_list(config, "processors", where);
    for (std::size_t i = 0; i < list.size(); ++i) add(list[i], item_at(where, "processors", i));
  } else if (type == "ByteLevel") {
    if (get_bool(config, "trim_offsets", where)) trims_.push_back(get_bool(config, "add_prefix_space", where));
  } else if (type == "RobertaProcessing") {
    if (get_bool(config, "trim_offsets", where)) trims_.push_back(get_bool(config, "add_prefix_space", where));
    set_around({{get_pair_id(config, "cls", where)}, {get_pair_id(config, "sep", where)}}, where);
  } else if (type == "BertProcessing") {
    set_around({{get_pair_id(config, "cls", where)}, {get_pair_id(config, "sep", where)}}, where);
  } else if (type == "TemplateProcessing") {
    add_template(config, where);
  } else {
    fail_type(where, type, "TemplateProcessing, ByteLevel, RobertaProcessing, BertProcessing, Sequence");
  }
}

}  // namespace hone::text
