// ByteLevel, RobertaProcessing, BertProcessing and Sequence; TemplateProcessing has a file of its own.
#include "text/parts/post_processors.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "text/parts/component.h"
#include "text/parts/vocabulary.h"

namespace hone::text {
namespace {

// ["</s>", 2]
std::int32_t get_pair_id(const Json& config, const char* name, const std::string& where) {
  const Json& pair = get_list(config, name, where);
  if (pair.size() != 2 || !pair[0].is_string()) fail_at(where + "." + name, "expected [token, id]");
  return static_cast<std::int32_t>(get_int(Json{{"id", pair[1]}}, "id", where + "." + name, 0, kMaxId - 1));
}

template <class Change>
void with_overflow(Draft& draft, Change&& change) {
  change(draft);
  for (Draft& more : draft.overflow) change(more);
}

class Trim final : public PostStep {
 public:
  explicit Trim(bool keep_first) : keep_first_(keep_first) {}
  void apply(std::vector<Draft>& parts, bool, const TextPair& texts) const override {
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const std::string_view text = k == 0 ? texts.first : texts.second.value_or("");
      with_overflow(parts[k], [&](Draft& draft) {
        for (std::size_t i = 0; i < draft.entries.size(); ++i)
          trim_offsets(draft.entries[i].blanks, keep_first_, i == 0, text, draft.entries[i].offset);
      });
    }
  }
  std::size_t added(bool) const override { return 0; }
  std::optional<bool> trims() const override { return keep_first_; }

 private:
  bool keep_first_;
};

// <cls> A <sep> and, for the second text: B <sep> (BERT, type 1) or <sep> B <sep> (RoBERTa, all of type 0).
class TwoEnds final : public PostStep {
 public:
  TwoEnds(std::int32_t first, std::int32_t last, bool roberta) : first_(first), last_(last), roberta_(roberta) {}
  void apply(std::vector<Draft>& parts, bool special, const TextPair&) const override {
    for (std::size_t k = 0; k < parts.size(); ++k) {
      if (roberta_) parts[k].set_types(0);
      if (special) with_overflow(parts[k], [&](Draft& draft) { put_around(draft, static_cast<int>(k)); });
    }
  }
  std::size_t added(bool pair) const override { return !pair ? 2 : roberta_ ? 4 : 3; }

 private:
  void put_around(Draft& draft, int which) const {
    if (roberta_) draft.set_types(0);
    const auto end = [&](std::int32_t id) {
      return Draft::Entry{.id = id, .type = roberta_ ? 0 : which, .offset = {}, .blanks = {}, .special = true};
    };
    const bool front = which == 0 || roberta_;
    const std::size_t count = draft.entries.size();
    if (front) draft.entries.insert(draft.entries.begin(), end(which == 0 ? first_ : last_));
    draft.entries.push_back(end(last_));
    draft.sequences[0] = draft.sequences[1] = {};
    draft.sequences[which] = {front, front + count, true};
  }
  std::int32_t first_, last_;
  bool roberta_;
};

}  // namespace

PostProcessor::PostProcessor(const Json& config, const std::string& where) : present_(!config.is_null()) {
  if (present_) add(config, where);
  find_short_form();
}

Draft PostProcessor::apply(std::vector<Draft> parts, bool special, const TextPair& texts) const {
  const bool pair = parts.size() > 1;
  if (!present_ && !pair) return std::move(parts[0]);
  for (std::size_t k = 0; k < parts.size(); ++k) {
    parts[k].set_sequence(static_cast<int>(k));
    if (!present_) continue;
    for (Draft& more : parts[k].overflow) more.set_sequence(static_cast<int>(k));
    parts[k].set_types(static_cast<std::int32_t>(k));
  }
  for (const auto& step : steps_) step->apply(parts, special, texts);
  Draft whole;
  for (const Draft& part : parts) whole.merge(part);
  return whole;
}

std::size_t PostProcessor::added(bool pair) const {
  std::size_t count = 0;
  for (const auto& step : steps_) count += step->added(pair);
  return count;
}

// What apply() does to one text, seen on a text of one token.
void PostProcessor::find_short_form() {
  trims_.clear();
  for (const auto& step : steps_)
    if (const auto keep_first = step->trims()) trims_.push_back(*keep_first);
  std::vector<Draft> probe(1);
  probe[0].entries.push_back({.id = -1, .offset = {}, .blanks = {}});
  around_.assign(1, {});
  for (const Draft::Entry& e : apply(std::move(probe), true, {}).entries) {
    if (e.id < 0)
      around_.emplace_back();
    else
      around_.back().push_back(e.id);
  }
}

void PostProcessor::add_adding(std::unique_ptr<PostStep> step, const std::string& where) {
  if (adds_tokens_) fail_at(where, "a second part that adds tokens; expected at most one");
  adds_tokens_ = true;
  steps_.push_back(std::move(step));
}

void PostProcessor::add(const Json& config, const std::string& where) {
  const std::string type = type_of(config, where);
  const auto add_trim = [&] {
    if (!get_bool(config, "trim_offsets", where)) return;
    if (adds_tokens_) fail_at(where, "trims offsets after a part that adds tokens");
    steps_.push_back(std::make_unique<Trim>(get_bool(config, "add_prefix_space", where)));
  };
  if (type == "Sequence") {
    const Json& list = get_list(config, "processors", where);
    for (std::size_t i = 0; i < list.size(); ++i) add(list[i], item_at(where, "processors", i));
  } else if (type == "ByteLevel") {
    add_trim();
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    const bool roberta = type == "RobertaProcessing";
    if (roberta) add_trim();
    add_adding(std::make_unique<TwoEnds>(get_pair_id(config, "cls", where), get_pair_id(config, "sep", where), roberta),
               where);
  } else if (type == "TemplateProcessing") {
    add_adding(make_template(config, where), where);
  } else {
    fail_type(where, type, "TemplateProcessing, ByteLevel, RobertaProcessing, BertProcessing, Sequence");
  }
}

}  // namespace hone::text
