// Sources and targets.
#include "data/seq2seq.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/option_words.h"
#include "base/strings.h"
#include "data/prompt_fields.h"
#include "hone/error.h"

namespace hone::data {
namespace {

using json = nlohmann::ordered_json;

// Columns for well-known names; shown, never used unasked.
std::string columns_for_pairs(const std::vector<std::string>& names) {
  if (has(names, "translation"))
    return "a translation's languages are fields of it, for instance " +
           columns_words({{"prompt", "translation.en"}, {"completion", "translation.de"}});
  const Columns found = {{"prompt", first_of(names, {"prompt", "source", "src", "article", "document", "dialogue",
                                                     "input", "question", "text", "en", "sentence1"})},
                         {"completion", first_of(names, {"completion", "target", "tgt", "highlights", "summary",
                                                         "output", "answer", "label", "de", "fr", "sentence2"})}};
  return advise_columns(found, {{"prompt", "article"}, {"completion", "highlights"}});
}

std::vector<std::int32_t> ids_in(const json& value, const std::string& field, const Place& place, bool may_be_none) {
  const json& list = *find_field(value, field);
  if (!list.is_array()) throw FieldPlace{field, place}.bad(type_of(list), "a list of integers");
  std::vector<std::int32_t> ids;
  for (const json& one : list) {
    const auto id = one.is_number_integer() ? one.get<std::int64_t>() : -1;
    if ((id < 0 || id > 0x7FFFFFFF) && !(may_be_none && id == -100))
      throw FieldPlace{field, place}.bad(one.is_number() ? one.dump() : type_of(one), "a token id");
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

// One of the two, without what is too long: at its end, or where the policy keeps the end, at its beginning.
struct Side {
  std::vector<std::int32_t> ids;
  std::size_t cut = 0;
};

Side side_of(const std::string& text, std::size_t most, const Tokenising& how,
             const std::optional<text::LanguageMark>& language) {
  constexpr std::int32_t kNone = -1;
  const std::int32_t eos = how.append_eos ? how.tokenizer.eos_id.value_or(kNone) : kNone;
  const bool keep_end = how.labelled->keep_end;
  const auto fitting = [&](std::size_t tokens) {
    FittedEncoding made = how.tokenizer.encode_fitting({.first = text, .second = {}}, tokens, keep_end);
    if (language && !made.ids.empty()) language->put(made.ids);
    return Side{std::move(made.ids), static_cast<std::size_t>(made.cut)};
  };
  Side side = fitting(most);
  if (eos == kNone || side.ids.empty() || side.ids.back() == eos || text::puts_eos(how.tokenizer)) return side;
  if (most > 0 && side.ids.size() >= most) side = fitting(std::max<std::size_t>(1, most - 1));
  if (most == 0 || side.ids.size() < most) side.ids.push_back(eos);
  return side;
}

Side side_of(std::vector<std::int32_t> ids, std::size_t most, bool keep_end) {
  Side side{std::move(ids)};
  if (most == 0 || side.ids.size() <= most) return side;
  side.cut = side.ids.size() - most;
  keep_end ? void(side.ids.erase(side.ids.begin(), side.ids.begin() + static_cast<std::ptrdiff_t>(side.cut)))
           : side.ids.resize(most);
  return side;
}

std::size_t most_of_targets(const Tokenising& how) {
  if (how.labelled->most == 0) return 0;
  return how.targets.max_length ? static_cast<std::size_t>(*how.targets.max_length) : how.labelled->most;
}

RecordTokens as_documents(Side source, Side target, const Tokenising& how) {
  RecordTokens all;
  if (source.ids.empty() || target.ids.empty()) return all;
  const auto label = [](const Side& side, std::size_t length) {
    return DocLabel{"", static_cast<std::uint32_t>(length), static_cast<std::uint32_t>(side.cut)};
  };
  all.role = Role::source;
  all.label = label(source, source.ids.size());
  all.labels.assign(source.ids.size(), -100);
  all.ids = std::move(source.ids);
  RecordTokens answer;
  answer.role = Role::target;
  answer.label = label(target, target.ids.size() + 1);
  answer.ids = {how.targets.start}, answer.labels = {-100};
  answer.ids.insert(answer.ids.end(), target.ids.begin(), target.ids.end());
  answer.labels.insert(answer.labels.end(), target.ids.begin(), target.ids.end());
  all.companions.push_back(std::move(answer));
  return all;
}

}  // namespace

const std::vector<std::string>& seq2seq_fields() {
  static const std::vector<std::string> names = {"prompt",      "completion", "input_ids", "labels",
                                                 "instruction", "input",      "output"};
  return names;
}

Form seq2seq_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                  const Place& place) {
  const auto missing = [&](const std::string& name) {
    throw Error(ErrorKind::data,
                fmt::format("{}: no field {}; found {}; expected prompt and completion, input_ids and labels, or "
                            "instruction and output",
                            place.text(), hone::quoted(name), names.empty() ? "none" : list_names(names)))
        .hint(columns_for_pairs(names));
  };
  const auto maybe = field_finder(names, columns, missing);
  Form form;
  form.prompt = maybe("prompt"), form.completion = maybe("completion");
  form.input_ids = maybe("input_ids"), form.labels = maybe("labels");
  form.instruction = maybe("instruction"), form.output = maybe("output");
  const bool texts = !form.prompt.empty() && !form.completion.empty();
  const bool ids = !form.input_ids.empty() && !form.labels.empty();
  const bool alpaca = !form.instruction.empty() && !form.output.empty();
  if (texts + ids + alpaca > 1)
    throw Error(ErrorKind::data,
                fmt::format("{}: more than one form of record; found {}", place.text(), list_names(names)))
        .hint(ignore_words(ids ? form.labels : form.output) + " passes over it");
  // Where columns name one of the two, it is the one that is meant.
  const auto refuse_both = [&](const char* what, const char* first, const char* second) {
    const std::string a = maybe(first), b = maybe(second);
    if (a.empty() || b.empty() || columns.contains(first) != columns.contains(second)) return;
    throw Error(ErrorKind::data, fmt::format("{}: more than one field is a {}: {}, {}", place.text(), what, a, b))
        .hint(ignore_words(b) + " passes over it");
  };
  if (!ids) refuse_both("source", "prompt", "instruction"), refuse_both("target", "completion", "output");
  if (texts) return {.prompt = form.prompt, .completion = form.completion};
  if (ids) return {.input_ids = form.input_ids, .labels = form.labels};
  if (alpaca) return {.instruction = form.instruction, .input = maybe("input"), .output = form.output};
  missing(!form.prompt.empty()        ? "completion"
          : !form.input_ids.empty()   ? "labels"
          : !form.instruction.empty() ? "output"
                                      : "prompt");
  return form;
}

Record read_seq2seq(const json& value, const Form& form, const Place& place) {
  Record record;
  const auto text = [&](const std::string& field) { return text_field(value, field, place); };
  if (!form.input_ids.empty()) {
    record.content = IdsRecord{.input_ids = ids_in(value, form.input_ids, place, /*may_be_none=*/false),
                               .labels = ids_in(value, form.labels, place, /*may_be_none=*/true)};
  } else if (!form.prompt.empty()) {
    record.content = answered_prompt(text(form.prompt), value, form.completion, place);
  } else {
    const std::string input = form.input.empty() ? "" : text(form.input);
    record.content = answered_prompt(text(form.instruction) + (input.empty() ? "" : "\n" + input), value, form.output,
                                     place);
  }
  return record;
}

RecordTokens from_source_and_target(const PromptRecord& record, const Tokenising& how) {
  HONE_ASSERT(how.labelled);
  if (trim(record.prompt).empty() || trim(record.completion).empty()) return {};
  return as_documents(side_of(record.prompt, how.labelled->most, how, how.source_language),
                      side_of(record.completion, most_of_targets(how), how, how.target_language), how);
}

// Both may be filled up behind their end, as batches are: with padding, labels also with -100.
RecordTokens from_source_and_target(const IdsRecord& record, const Tokenising& how, const std::string& place) {
  HONE_ASSERT(how.labelled && record.labels);
  std::vector<std::int32_t> ids = record.input_ids, labels = *record.labels;
  const Tokenizer& tokenizer = how.tokenizer;
  const bool has_padding = tokenizer.pad_id && tokenizer.pad_id != tokenizer.eos_id;
  const auto is_padding = [&](std::int32_t id) { return id == -100 || (has_padding && id == *tokenizer.pad_id); };
  while (!ids.empty() && is_padding(ids.back())) ids.pop_back();
  while (!labels.empty() && is_padding(labels.back())) labels.pop_back();
  if (std::find(labels.begin(), labels.end(), -100) != labels.end())
    throw Error(ErrorKind::data, place + ": labels: -100 before the last label; expected the ids of a whole target");
  const bool keep_end = how.labelled->keep_end;
  return as_documents(side_of(std::move(ids), how.labelled->most, keep_end),
                      side_of(std::move(labels), most_of_targets(how), keep_end), how);
}

}  // namespace hone::data
