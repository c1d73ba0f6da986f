#include "evals/written.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "base/strings.h"
#include "data/choose_template.h"
#include "generate/beams.h"
#include "generate/engine.h"
#include "generate/form.h"
#include "generate/take_given.h"
#include "hone/layers.h"
#include "tensor/host.h"

namespace hone::evals {
namespace {

// What is asked, and the tokens that the data answer.
struct Asked {
  std::vector<std::int32_t> prompt = {}, answer = {};
  std::int64_t record = 0;
};

// The last targets in a row; a target lies one place before its token. Nothing: there is none.
std::optional<Asked> asked_in(const Doc& doc, std::span<const std::int64_t> ids,
                              std::span<const std::int64_t> targets) {
  auto end = targets.size();
  while (end > 0 && targets[end - 1] == -100) --end;
  auto begin = end;
  while (begin > 0 && targets[begin - 1] != -100) --begin;
  if (begin == end) return std::nullopt;
  Asked made{.record = doc.record};
  made.prompt.assign(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(begin) + 1);
  made.answer.assign(targets.begin() + static_cast<std::ptrdiff_t>(begin),
                     targets.begin() + static_cast<std::ptrdiff_t>(end));
  return made;
}

// In the order of the batch. A source is what its target answers.
std::vector<Asked> asked_in(const Batch& batch) {
  const Tensor ids_BT = host::read(batch.ids_BT), labels_BT = host::read(batch.labels_BT);
  const auto part = [&](const Tensor& x, const Doc& doc) {
    return host::values<std::int64_t>(x).subspan(static_cast<std::size_t>(doc.row * batch.length() + doc.begin),
                                                 static_cast<std::size_t>(doc.end - doc.begin));
  };
  std::map<std::int32_t, const Doc*> sources;
  for (const Doc& doc : batch.docs)
    if (doc.role == Role::source) sources[doc.group] = &doc;
  std::vector<Asked> all;
  for (const Doc& doc : batch.docs) {
    if (doc.role == Role::source) continue;
    std::optional<Asked> asked = asked_in(doc, part(ids_BT, doc), part(labels_BT, doc));
    if (!asked) continue;
    if (doc.role == Role::target) {
      const auto source = part(ids_BT, *sources.at(doc.group));
      asked->prompt.assign(source.begin(), source.end());
    }
    all.push_back(std::move(*asked));
  }
  return all;
}

GenerateConfig config_of(const WritingSection& how, const GenerateConfig& of_folder, const Tokenizer& tokenizer,
                         const Model& model) {
  GenerateConfig made = of_folder;
  generate::take_given(how, made);
  made.temperature = how.temperature, made.top_k = how.top_k, made.top_p = how.top_p, made.min_p = 0;
  if (made.temperature > 0 && !how.num_beams) made.num_beams = 1;
  if (!how.stop.empty()) made.stop = how.stop;
  made.regex = how.regex, made.json_schema = how.json_schema;
  if (model.seq2seq_lm()) return made;
  const std::vector<std::int32_t> ends = data::ends_of_answers(tokenizer);
  for (const std::int32_t end : ends)  // beside the folder's
    if (end < model.vocab_size() && std::ranges::count(made.eos_token_id, end) == 0) made.eos_token_id.push_back(end);
  return made;
}

std::vector<Generated> write(const std::vector<Asked>& asked, const WritingSection& how, const EvaluationSet& set,
                             const Model& model) {
  GenerateConfig config = config_of(how, set.generation, *set.tokenizer, model);
  config.batch_size = std::max<std::int64_t>(1, std::ssize(asked));
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<std::uint64_t> seeds;
  for (const Asked& one : asked)
    prompts.push_back(one.prompt), seeds.push_back(how.seed + static_cast<std::uint64_t>(one.record));
  Generator generator(model, set.tokenizer);
  generator.be_silent();
  return generator.generate(prompts, config, {}, {}, seeds);
}

void check_tokenizer(const Tokenizer* tokenizer, const std::string& name) {
  if (!tokenizer || tokenizer->vocab_size() == 0)
    throw Error(ErrorKind::config, "evaluation " + name + ": there is no tokenizer, and texts are compared");
}

std::string trimmed(const std::string& text) { return std::string(trim(text)); }

std::vector<std::string> references_of(const Asked& asked, const EvaluationSet& set) {
  std::vector<std::string> all;
  const std::vector<std::string>* kept = set.data.references(asked.record);
  if (!kept) return {trimmed(set.tokenizer->decode(asked.answer))};
  for (const std::string& one : *kept) all.push_back(trimmed(one));
  return all;
}

}  // namespace

void WritingSection::validate(Problems& problems) const {
  problems.require(temperature > 0 || top_k == 0, "top_k", "only with a temperature above 0");
  problems.require(temperature > 0 || top_p == 1, "top_p", "only with a temperature above 0");
  problems.require(temperature == 0 || num_beams.value_or(1) == 1, "temperature",
                   "not with num_beams: beams are the likeliest answers, and nothing is drawn");
  problems.require(regex.empty() || json_schema.empty(), "json_schema", "not with regex: an answer has one form");
  problems.require(stop.empty() || num_beams.value_or(1) == 1, "stop", "not with num_beams: beams end at tokens alone");
}

void WrittenAnswers::check(const Model& model) const {
  require_language_model(model, "evaluation " + name_);
  bool is_part = false;
  model.each_weight([&](const std::string&, const Weight& weight) { is_part |= !weight.layout().whole(); });
  if (!is_part) return;
  throw Error(ErrorKind::config, "evaluation " + name_ +
                                     ": not with parallel.fsdp or parallel.tensor, where no rank has a whole model")
      .hint("hone eval measures checkpoints");
}

void WrittenAnswers::check_writing(const Model& model, const Tokenizer& tokenizer,
                                   const GenerateConfig& of_folder) const {
  check(model);
  check_tokenizer(&tokenizer, name_);
  const GenerateConfig config = config_of(how_, of_folder, tokenizer, model);
  during("checking evaluation " + name_, [&] {
    generate::check_ends(model, tokenizer, config);
    generate::check_beams(config);
    generate::form_of(config, tokenizer, model.vocab_size());
  });
}

void WrittenAnswers::check_data(const DataReport& data) const {
  if (data.pictures > 0)
    throw Error(ErrorKind::data, fmt::format("evaluation {}: {} in the set; expected none, as answers are written to "
                                             "texts alone",
                                             name_, counted(data.pictures, "picture")))
        .hint("hone generate answers prompts with pictures");
  if (data.without_prompt == 0) return;
  throw Error(ErrorKind::data, fmt::format("evaluation {}: {} of {} have no prompt; expected one in each, which the "
                                           "model answers",
                                           name_, data.without_prompt, counted(data.pieces, "document")))
      .hint("records of prompt and completion and conversations have one, unless loss is all; texts have none");
}

Sums WrittenAnswers::measure(const Model&, const Output&, const Batch&, Pass&) const {
  throw Error(ErrorKind::bug, "evaluation " + name_ + ": asked without its data");
}

Sums WrittenAnswers::measure_in(const EvaluationSet& set, const Model& model, const Output&, const Batch& batch,
                                Pass&) const {
  check_tokenizer(set.tokenizer.get(), name_);
  const std::vector<Asked> asked = asked_in(batch);
  Sums sums{{"prompts", static_cast<double>(asked.size())}, {"answer_length", 0}};
  if (asked.empty()) return sums;
  const std::string how = config::to_json(config::Values<WritingSection>::write(how_), 0);
  auto written = set.written.find(how);
  if (written == set.written.end()) written = set.written.emplace(how, write(asked, how_, set, model)).first;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const Generated& answer = written->second.at(i);
    sums["answer_length"] += static_cast<double>(answer.ids.size());
    add({trimmed(answer.text), references_of(asked[i], set)}, sums);
  }
  return sums;
}

std::vector<std::string> WrittenAnswers::names() const {
  std::vector<std::string> all = own_names();
  all.insert(all.end(), {"answer_length", "prompts"});
  return all;
}

Metrics WrittenAnswers::result(const Sums& total) const {
  const double prompts = total.at("prompts");
  if (prompts == 0) throw Error(ErrorKind::data, "evaluation " + name_ + ": no prompt");
  Metrics made = own_result(total, prompts);
  made["answer_length"] = total.at("answer_length") / prompts;
  made["prompts"] = prompts;
  return made;
}

}  // namespace hone::evals
