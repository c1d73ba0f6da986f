// TemplateProcessing: a list of places for the texts and of tokens between them, for one text and for a pair.
#include <fmt/format.h>

#include "base/strings.h"
#include "text/parts/component.h"
#include "text/parts/post_processors.h"
#include "text/parts/vocabulary.h"

namespace hone::text {
namespace {

struct Place {
  int sequence = -1;  // 0 or 1: the text; -1: these ids
  std::int32_t type = 0;
  std::vector<std::int32_t> ids;
  std::string missing;  // why it cannot be used
};

class Template final : public PostStep {
 public:
  Template(std::vector<Place> single, std::vector<Place> pair) : places_{std::move(single), std::move(pair)} {}

  void apply(std::vector<Draft>& parts, bool special, const TextPair&) const override {
    const std::vector<Place>& places = places_[parts.size() > 1];
    std::vector<Draft> out;
    for (const Place& place : places) {
      if (!place.missing.empty()) throw Error(ErrorKind::config, place.missing);
      if (place.sequence >= 0) {
        Draft& part = parts[static_cast<std::size_t>(place.sequence)];
        part.set_types(place.type);
        part.set_sequence(place.sequence);
        out.push_back(part);
      } else if (special) {
        Draft& made = out.emplace_back();
        for (const std::int32_t id : place.ids)
          made.entries.push_back({.id = id, .type = place.type, .offset = {}, .blanks = {}, .special = true});
      }
    }
    parts = std::move(out);
  }
  std::size_t added(bool pair) const override {
    std::size_t count = 0;
    for (const Place& place : places_[pair]) count += place.ids.size();
    return count;
  }

 private:
  std::vector<Place> places_[2];  // for one text, for two
};

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

std::vector<Place> read_places(const Json& config, const char* name, const std::string& where) {
  const bool pair = std::string_view(name) == "pair";
  const Json& pieces = get_list(config, name, where);
  std::vector<Place> places;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::string at = item_at(where, name, i);
    if (!pieces[i].is_object() || pieces[i].size() != 1)
      fail_at(at, "expected {\"Sequence\": ..} or {\"SpecialToken\": ..}");
    const Json& piece = *pieces[i].begin();
    const std::string id = get_string(piece, "id", at);
    Place& place = places.emplace_back();
    place.type = static_cast<std::int32_t>(get_int(piece, "type_id", at, 0, INT32_MAX));
    if (pieces[i].contains("Sequence")) {
      if (id != "A" && !(pair && id == "B"))
        fail_at(at,
                fmt::format("got sequence {}, expected A{}", hone::quoted(id), pair ? " or B" : ": there is one text"));
      place.sequence = id == "B";
    } else if (pieces[i].contains("SpecialToken")) {
      try {
        place.ids = special_ids(config, id, where);
      } catch (const Error& error) {  // files with a template for pairs that nobody used are about
        if (!pair) throw;
        place.missing = error.what();
      }
    } else {
      fail_at(at, "expected Sequence or SpecialToken");
    }
  }
  return places;
}

}  // namespace

std::unique_ptr<PostStep> make_template(const Json& config, const std::string& where) {
  return std::make_unique<Template>(read_places(config, "single", where), read_places(config, "pair", where));
}

}  // namespace hone::text
