// What is about to be trained.
#include "train/preflight.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/strings.h"
#include "data/choose_template.h"
#include "data/empty_answers.h"
#include "data/inspect.h"
#include "data/labels.h"
#include "hone/hub.h"
#include "hone/layers.h"
#include "hone/objective.h"
#include "hone/registry.h"
#include "hone/trainer.h"
#include "hub/own_tokenizer.h"
#include "hub/replaced_tokenizer.h"
#include "hub/save.h"
#include "nn/lora_targets.h"
#include "ops/float8.h"
#include "tensor/threads.h"
#include "train/batch_size.h"
#include "train/complete.h"
#include "train/make_objective.h"
#include "train/placement.h"
#include "train/resources.h"
#include "train/rounding.h"
#include "train/same_data.h"
#include "train/step_plan.h"
#include "train/stream_records.h"
#include "train/trainable.h"
#include "train/trained_beside.h"

namespace hone::training {
namespace {

constexpr double kFewest = 0.75, kMost = 1.5;  // what desirable answers weigh against others without a word
constexpr double kMuch = 0.05;  // share of records or tokens lost, or of empty answers, that is worth a warning

// Of several labels: documents that have none, which are learnt as such.
std::int64_t count_without_label(const Dataset& data, const Needs& needs) {
  if (needs.records != RecordKind::labelled || needs.problem_type != ProblemType::multi_label_classification) return 0;
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < data.rows(); ++row)
    for (const HostDoc& doc : data.row(row)) {
      const std::vector<double>& label = doc.numbers.at("label");
      count += std::all_of(label.begin(), label.end(), [](double there) { return there == 0; });
    }
  return count;
}

std::string data_line(const std::string& name, const Dataset& data, const Needs& needs) {
  std::string text = fmt::format("{}: {}", name, counted(data.rows(), "row"));
  for (const auto& [what, count] : data::report_lines(data.report())) {
    if (what == "rows") continue;
    const std::string one = replace_all(replace_all(what, "records", "record"), "tokens", "token");
    text += fmt::format(", {} {}", human_count(static_cast<double>(count)), count == 1 ? one : what);
  }
  for (const auto& [label, count] : data.report().labels)
    text += fmt::format(", {} labelled {}", human_count(static_cast<double>(count)), hone::quoted(label));
  if (const std::int64_t count = count_without_label(data, needs); count > 0)
    text += fmt::format(", {} with no label", human_count(static_cast<double>(count)));
  for (const auto& [label, numbers] : data.report().label_numbers)
    text += fmt::format(", {} from {:.4g} to {:.4g}, {:.4g} in the mean", label, numbers.low, numbers.high,
                        numbers.sum / static_cast<double>(numbers.count));
  return text;
}

// A stream is not looked into, but for how many texts its records have: what it holds is not known before it is read.
std::string stream_line(const DataSection& data, const StreamRecords& records) {
  std::vector<std::string> names;
  for (const DataFile& file : data.train) names.push_back(file.path.empty() ? file.source.type : file.path);
  const std::string sizes = told(records);
  return fmt::format("data.train: read as a stream, {} at a time: {}{}{}", counted(data.stream_window, "row"),
                     list_names(names, 5), sizes.empty() ? "" : "; ", sizes);
}

nlohmann::ordered_json counts_of(const Dataset& data, const Needs& needs) {
  nlohmann::ordered_json counts;
  for (const auto& [what, count] : data::report_lines(data.report())) counts[replace_all(what, " ", "_")] = count;
  if (auto labels = data::labels_of(data.report()); !labels.is_null()) counts["labels"] = std::move(labels);
  if (const std::int64_t count = count_without_label(data, needs); count > 0) counts["without_label"] = count;
  return counts;
}

double share(std::int64_t part, std::int64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

// Whether there is an end to learn: that of a text, or that of a turn, as chat templates write it.
bool learns_an_end(const Inputs& inputs) {
  const Dataset* train = inputs.train->as_dataset();
  if (!train) return false;
  const std::int32_t eos = *inputs.tokenizer->eos_id, turn = data::turn_end(*inputs.tokenizer).value_or(eos);
  return learns_one_of(*train, {eos, turn});
}

// transformers finds a decoder's last token by its padding, and without one refuses to read several texts at once.
void warn_about_padding(const Inputs& inputs, std::vector<std::string>& warnings) {
  const config::Node config = inputs.model->hf_config();
  const config::Node* pad = config.find("pad_token_id");
  const bool there = pad && !pad->is_null();
  const Classifier* classifier = inputs.model->classifier();
  if (!classifier || classifier->of_tokens() || there || !inputs.has_tokenizer()) return;
  const std::vector<AttentionLayer> layers = inputs.model->attention();
  if (!layers.empty() && !layers[0].causal) return;  // an encoder, which looks for no last token
  if (hub::aligned_ids(*inputs.model, inputs.source, *inputs.tokenizer).empty())
    warnings.push_back(
        "the tokenizer has no padding token of its own: transformers will read one text at a time with what is saved, "
        "unless its config.json gets a pad_token_id that no text has");
}

// transformers leaves out layers by these, at random.
void warn_about_left_out_layers(const Inputs& inputs, std::vector<std::string>& warnings) {
  const config::Node config = inputs.model->hf_config();
  for (const char* key : {"encoder_layerdrop", "decoder_layerdrop"})
    if (const config::Node* share = config.find(key); share && parse_double(share->text()).value_or(0) > 0)
      warnings.push_back(fmt::format("the model's {} is {}: hone leaves no layer out in training", key, share->text()));
}

void warn_about_replacing(const Inputs& inputs, std::vector<std::string>& warnings) {
  if (!inputs.has_tokenizer()) return;
  if (std::string fact = hub::replaced_tokenizer(*inputs.model, *inputs.tokenizer); !fact.empty())
    warnings.push_back(std::move(fact));
}

void warn_about_ends(const Recipe& recipe, const Inputs& inputs, std::vector<std::string>& warnings) {
  const bool writes = !data::are_texts(make_objective(recipe)->needs().records);
  if (!writes || !inputs.model->causal_lm() || !inputs.has_tokenizer()) return;
  if (!inputs.tokenizer->eos_id)
    warnings.push_back("the tokenizer has no end-of-sequence token: the model will not learn where to stop");
  else if (!recipe.data.append_eos && !inputs.tokenizer->adds_eos && !learns_an_end(inputs))
    warnings.push_back("data.append_eos is false: the model will not learn where to stop");
}

// "": the model's files have the tokenizer's ids already.
std::string ids_line(const Inputs& inputs) {
  if (!inputs.has_tokenizer()) return "";
  const std::vector<std::string> changed = hub::aligned_ids(*inputs.model, inputs.source, *inputs.tokenizer);
  if (changed.empty()) return "";
  return (inputs.model->causal_lm() ? "checkpoints say where texts end as the tokenizer does: "
                                    : "checkpoints name the tokenizer's padding: ") +
         join(changed, ", ");
}

void warn_about_tokenizer(const Recipe& recipe, const Inputs& inputs, std::vector<std::string>& warnings) {
  if (recipe.tokenizer.empty() || inputs.source.empty() || !inputs.has_tokenizer()) return;
  if (!hub::is_tokenizer_of(inputs.source, *inputs.tokenizer))
    warnings.push_back(fmt::format("tokenizer: {} is not the one in {}: to the model its ids are other tokens",
                                   recipe.tokenizer, inputs.source.string()));
}

// Evaluations, saves and log lines have the last step besides; these have not.
void warn_about_callbacks(const Recipe& recipe, std::int64_t steps, std::vector<std::string>& warnings) {
  for (std::size_t i = 0; i < recipe.callbacks.size(); ++i)
    if (const std::int64_t every = registries().callbacks.make(recipe.callbacks[i])->times().every_n_steps;
        every > steps)
      warnings.push_back(fmt::format("callbacks.{} ({}): every {} steps comes to nothing in a run of {}", i,
                                     recipe.callbacks[i].type, every, steps));
}

// Of judged answers: what one kind of them weighs in the loss against the other (arXiv:2402.01306, equation 8).
void warn_about_judgements(const Recipe& recipe, const DataReport& report, std::vector<std::string>& warnings) {
  const auto count = [&](const char* kind) {
    const auto found = report.labels.find(kind);
    return found == report.labels.end() ? 0.0 : static_cast<double>(found->second);
  };
  const double good = count("desirable"), bad = count("undesirable");
  if (good + bad == 0) return;
  if (good == 0 || bad == 0) {
    warnings.push_back(fmt::format("every answer is {}: nothing tells what {} from it",
                                   good > 0 ? "desirable" : "undesirable", good > 0 ? "not to give" : "to give"));
    return;
  }
  const config::Node options = config::Values<config::Choice<Objective>>::write(recipe.objective);
  const auto weight = [&](const char* option) {
    const config::Node* const node = options.find(option);
    return node ? parse_double(node->text()).value_or(1) : 1;
  };
  const double wanted = bad / good, desirable = weight("desirable_weight"), undesirable = weight("undesirable_weight");
  const double ratio = good * desirable / std::max(1e-9, bad * undesirable);
  if (ratio < kFewest || ratio > kMost)
    warnings.push_back(
        fmt::format("{} desirable answers weigh {:.2g} times as much in the loss as {} others; 1 to 1.33 times is "
                    "advised, for instance by objective.desirable_weight={:.2g}",
                    human_count(good), ratio, human_count(bad), 1.15 * wanted * undesirable));
}

// A field that was not meant, or records that nobody has filled in: a model learns from them to say nothing.
void tell_empty_answers(const Dataset& train, const Inputs& inputs, Preflight& found) {
  const data::AnswerCounts counts = data::count_answers(train, *inputs.tokenizer);
  if (counts.empty == 0) return;
  found.report["train"]["empty_answers"] = counts.empty;
  const std::string line = fmt::format("{} of {} empty: only the end of {} is learnt", counts.empty,
                                       counts.answers == 1 ? "1 answer is" : fmt::format("{} answers are",
                                                                                         counts.answers),
                                       counts.empty == 1 ? "it" : "them");
  if (share(counts.empty, counts.answers) > kMuch) found.warnings.push_back(line);
  else found.lines.push_back(line);
}

void warn_about_data(const Recipe& recipe, const Dataset& train, std::vector<std::string>& warnings) {
  const DataReport& report = train.report();
  const double cut = share(report.cut_tokens, report.tokens + report.cut_tokens);
  if (cut > kMuch)
    warnings.push_back(fmt::format("{:.0f} % of the tokens are {}: data.max_length is {}{}, data.overlong decides",
                                   100 * cut, report.dropped > 0 ? "cut off or dropped" : "cut off",
                                   recipe.data.max_length,
                                   recipe.objective.type == "seq2seq" ? " (of targets: objective.max_target_length)"
                                                                      : ""));
  if (share(report.lost_supervised, report.supervised + report.lost_supervised) > kMuch)
    warnings.push_back(fmt::format("{} of {} tokens that would be learnt are cut off or dropped",
                                   human_count(static_cast<double>(report.lost_supervised)),
                                   human_count(static_cast<double>(report.supervised + report.lost_supervised))));
  if (share(report.dropped, report.records) > kMuch)
    warnings.push_back(fmt::format("{} of {} records are dropped for being longer than data.max_length {}",
                                   report.dropped, report.records, recipe.data.max_length));
  if (report.with_pictures > 0 && recipe.data.overlong != Overlong::drop)
    warnings.push_back(fmt::format("{} dropped: with pictures, longer than data.max_length {}, and never cut",
                                   report.with_pictures == 1 ? "1 record is" : fmt::format("{} records are",
                                                                                           report.with_pictures),
                                   recipe.data.max_length));
  if (share(report.unsupervised_records, report.records) > kMuch)
    warnings.push_back(
        fmt::format("{} of {} records have no token to learn", report.unsupervised_records, report.records));
  warn_about_judgements(recipe, report, warnings);
  const std::int64_t per_step = recipe.trainer.rows_per_step();
  if (train.epoch_rows() < per_step)
    warnings.push_back(fmt::format("a step has {} rows and the data only {}: each step sees rows more than once",
                                   per_step, train.epoch_rows()));
}

std::string name_of(Precision precision) { return config::Values<Precision>::write(precision).text(); }

std::string memory_text(const MemoryPlan& memory, int ranks) {
  const std::string each = ranks == 1 ? "" : " on each rank";
  if (!memory.unknown.empty())
    return fmt::format("about {} of memory{} besides activations", human_size(memory.peak), each);
  return fmt::format("about {} of memory{}, {} of it for a step's activations", human_size(memory.peak), each,
                     human_size(memory.backward));
}

void warn_about_half(const Recipe& recipe, std::vector<std::string>& warnings) {
  if (recipe.trainer.precision == Precision::fp16 && device_of(recipe).is_cpu())
    warnings.push_back("trainer.precision fp16: there are no fast kernels for it on the CPU; bf16 has them");
}

// "model.layers.3.mlp.gate" as one of "model.layers.*.mlp.gate".
std::string without_numbers(const std::string& name) {
  std::string made;
  for (const char c : name)
    if (c < '0' || c > '9') made += c;
    else if (!made.ends_with('*')) made += '*';
  return made;
}

// Throws Error(config) where no layer takes fp8.
std::string float8_line(const Recipe& recipe, const Model& model) {
  std::int64_t count = 0;
  std::set<std::string> others;
  model.each_weight([&](const std::string& name, const Weight& weight) {
    if (weight.use_as() != WeightUse::product && weight.use_as() != WeightUse::product_in_out) return;
    if (weight.takes_float8())
      ++count;
    else
      others.insert(without_numbers(name.substr(0, name.rfind('.'))));
  });
  if (const CausalLm* causal = model.causal_lm(); causal && causal->head().tied()) others.insert("the tied head");
  const std::string how = config::Values<Float8>::write(recipe.trainer.fp8).text();
  if (count == 0)
    throw Error(ErrorKind::config, fmt::format("trainer.fp8: {}, but no linear layer of this model takes products in "
                                               "fp8; expected sizes that are multiples of 16", how));
  const std::vector<std::string> names(others.begin(), others.end());
  return fmt::format("products in fp8, {}: {}{}", how, counted(count, "linear layer"),
                     names.empty() ? "" : "; in bf16: " + join(names, ", "));
}

void warn_about_float8(const Recipe& recipe, at::Device device, std::vector<std::string>& warnings) {
  if (recipe.trainer.fp8 != Float8::off && ops::float8_on(device) == ops::Float8By::emulation)
    warnings.push_back("trainer.fp8: no hardware for it here: products are emulated, and slower than in bf16");
}

// PEFT takes modules of these names for routed experts, as transformers 5 has them in one piece, and drops what they
// have in layers without (PEFT 0.21).
void warn_about_peft(const Inputs& inputs, std::vector<std::string>& warnings) {
  if (!inputs.adapter) return;
  const config::Node config = inputs.model->hf_config();
  const config::Node* type = config.find("model_type");
  constexpr std::array affected{"qwen3_moe", "qwen3_next",    "olmoe", "deepseek_v2",  "deepseek_v3",
                                "glm4_moe",  "glm4_moe_lite", "dots1", "ernie4_5_moe", "hunyuan_v1_moe",
                                "solar_open", "exaone_moe",   "mellum", "cohere2_moe"};
  const auto is_type = [&](const char* one) { return type && type->text() == one; };
  if (std::none_of(affected.begin(), affected.end(), is_type)) return;
  std::vector<std::string> lost;
  for (const std::string& module : inputs.adapter_report.adapted)
    if (module.find(".experts.") == std::string::npos &&
        (module.ends_with(".gate_proj") || module.ends_with(".up_proj") || module.ends_with(".down_proj")))
      lost.push_back(module);
  if (!lost.empty())
    warnings.push_back(fmt::format("PEFT will not read what the adapter has for {}: it takes the names for routed "
                                   "experts; adapter.exclude leaves them out, hone merge takes them in",
                                   list_names(lost, 3)));
}

// As PEFT, whose look-ups alone take it.
void warn_about_tied_tables(const Inputs& inputs, std::vector<std::string>& warnings) {
  const std::vector<std::string>& adapted = inputs.adapter_report.adapted;
  inputs.model->each_weight([&](const std::string& name, Weight& weight) {
    const std::string module = name.substr(0, name.rfind('.'));
    if (nn::is_tied_table(*inputs.model, weight) && std::ranges::find(adapted, module) != adapted.end())
      warnings.push_back(fmt::format("adapter.targets: {}: the head uses this table, too: what is learnt is for "
                                     "look-ups alone, and hone merge cannot take it in; "
                                     "adapter.trainable_token_indices trains rows for both",
                                     module));
  });
}

// ranks: on this machine.
void warn_about_memory(const MemoryPlan& memory, at::Device device, int ranks, std::vector<std::string>& warnings) {
  const std::uint64_t there = memory_there(device);
  const int sharing = ranks_that_share_memory(device, ranks);
  if (memory.peak * static_cast<std::uint64_t>(sharing) <= there) return;
  warnings.push_back(fmt::format("{} of memory are there{}; hone plan says what takes how much", human_size(there),
                                 sharing == 1 ? "" : fmt::format(" for {} ranks", sharing)));
}

}  // namespace

Preflight describe_inputs(const Recipe& recipe, const Inputs& inputs, const SaveTypes& save_types,
                          const MemoryPlan& memory, int ranks) {
  Preflight result;
  const TrainerSection& trainer = recipe.trainer;
  const std::int64_t steps = steps_of(recipe, inputs), parameters = inputs.model->parameter_count();
  const std::int64_t beside = inputs.adapter_report.parameters;
  const std::int64_t trained = trained_parameters(*inputs.model) + beside;
  const std::string origin = !inputs.source.empty() ? inputs.source.string()
                             : inputs.in_memory     ? "in memory"
                                                    : "fresh, seed " + std::to_string(recipe.run.seed);
  const std::string frozen =
      trained == parameters ? "" : fmt::format(", {} of them trained", human_count(static_cast<double>(trained)));
  result.lines.push_back(fmt::format("model: {} parameters{} ({}), {}", human_count(static_cast<double>(parameters)),
                                     frozen, origin, name_of(trainer.precision)));
  if (inputs.adapter) {
    const std::string whole = trained == beside ? ""
                                                : fmt::format(", and {} of modules that are trained whole",
                                                              human_count(static_cast<double>(trained - beside)));
    const std::int64_t tokens = std::ssize(inputs.adapter->trainable_token_indices);
    result.lines.push_back(fmt::format("adapter: LoRA of rank {} beside {}{}{}: {} parameters{}", inputs.adapter->rank,
                                       counted(std::ssize(inputs.adapter_report.adapted), "module"),
                                       tokens == 0 ? "" : " and rows of " + counted(tokens, "token"),
                                       inputs.adapter_source.empty() ? "" : ", from " + inputs.adapter_source.string(),
                                       human_count(static_cast<double>(beside)), whole));
  }
  for (const auto& [name, own] : inputs.model->beside()) {
    const std::filesystem::path& source = inputs.beside.at(name).folder;
    result.lines.push_back(fmt::format("{}: {} parameters ({}), trained with it", name,
                                       human_count(static_cast<double>(own->parameter_count())),
                                       !source.empty()      ? source.string()
                                       : own->as_model()    ? origin
                                                            : "fresh, seed " + std::to_string(recipe.run.seed)));
  }
  if (const std::string line = ids_line(inputs); !line.empty()) result.lines.push_back(line);
  const Dataset* train = inputs.train->as_dataset();
  const Needs needs = make_objective(recipe)->needs();
  result.lines.push_back(train ? data_line("data.train", *train, needs)
                               : stream_line(recipe.data, stream_records(needs, *inputs.train, inputs.evals)));
  for (const EvalSet& set : inputs.evals) result.lines.push_back(data_line("data.eval." + set.name, *set.data, needs));
  const std::int64_t per_step = trainer.rows_per_step();
  const double epochs = train ? share(rows_until(steps, recipe, inputs), train->epoch_rows()) : 0;
  const std::string how_often =
      !train ? "" : fmt::format(", {} epochs", epochs < 1000 ? fmt::format("{:.3g}", epochs) : human_count(epochs));
  result.lines.push_back(fmt::format("{} of {} ({} x {}){}; {}", counted(steps, "step"), counted(per_step, "row"),
                                     trainer.batch_size.rows, trainer.accumulate, how_often,
                                     memory_text(memory, ranks)));
  for (std::string& line : step_plan_lines(recipe)) result.lines.push_back(std::move(line));
  const at::Device device = device_of(recipe);
  if (trainer.fp8 != Float8::off) result.lines.push_back(float8_line(recipe, *inputs.model));
  if (trainer.qat.on()) result.lines.push_back(rounding_line(recipe, *inputs.model));
  result.lines.push_back(device.is_cpu() ? describe_threads() : "on " + device.str());
  result.lines.push_back(inputs.adapter ? "checkpoints hold the adapter alone, as exactly as it is trained"
                                        : save_types.text());
  result.report = {{"parameters", parameters},
                   {"trained_parameters", trained},
                   {"weights", origin},
                   {"precision", name_of(trainer.precision)},
                   {"device", device.str()},
                   {"train", train ? counts_of(*train, needs) : nlohmann::ordered_json{{"stream", true}}},
                   {"eval", nlohmann::ordered_json::object()},
                   {"steps", steps},
                   {"batch_size", trainer.batch_size.rows},
                   {"accumulate", trainer.accumulate},
                   {"epochs", train ? nlohmann::ordered_json(epochs) : nlohmann::ordered_json()},
                   {"fixed_memory_bytes", memory.lasting() + memory.gathered},
                   {"peak_memory_bytes", memory.peak},
                   {"checkpoints", save_types.text()}};
  for (const EvalSet& set : inputs.evals) result.report["eval"][set.name] = counts_of(*set.data, needs);
  if (train && inputs.has_tokenizer()) tell_empty_answers(*train, inputs, result);
  if (train) warn_about_data(recipe, *train, result.warnings);
  else if (trainer.tokens && !trainer.steps)
    result.warnings.push_back("trainer.tokens: a stream's rows are counted as full ones: the run may end with fewer");
  for (std::string& warning : sets_trained_on(recipe.data)) result.warnings.push_back(std::move(warning));
  warn_about_tokenizer(recipe, inputs, result.warnings);
  warn_about_ends(recipe, inputs, result.warnings);
  warn_about_replacing(inputs, result.warnings);
  warn_about_left_out_layers(inputs, result.warnings);
  warn_about_padding(inputs, result.warnings);
  warn_about_callbacks(recipe, steps, result.warnings);
  warn_about_half(recipe, result.warnings);
  warn_about_float8(recipe, device, result.warnings);
  warn_about_peft(inputs, result.warnings);
  if (inputs.adapter) warn_about_tied_tables(inputs, result.warnings);
  warn_about_memory(memory, device, ranks, result.warnings);
  if (recipe.data.max_length > inputs.model->max_positions())
    result.warnings.push_back(fmt::format("data.max_length {} is beyond the model's max_position_embeddings {}",
                                          recipe.data.max_length, inputs.model->max_positions()));
  result.report["warnings"] = result.warnings;
  return result;
}

std::vector<std::string> Preflight::all_lines() const {
  std::vector<std::string> all = lines;
  for (const std::string& warning : warnings) all.push_back("warning: " + warning);
  return all;
}

Preflight preflight_of(const Recipe& given) {
  Recipe recipe = completed_for_preview(given);
  const Inputs inputs = load_inputs(recipe, "");
  const std::string chosen = choose_batch_size(recipe, inputs, World());
  const SaveTypes types(recipe.trainer.save.dtype, recipe.trainer.precision, source_types(inputs.source));
  Preflight found = describe_inputs(recipe, inputs, types, plan_memory(recipe, inputs), 1);
  if (!chosen.empty()) found.lines.push_back("trainer.batch_size: " + chosen);
  return found;
}

}  // namespace hone::training

namespace hone {

std::vector<std::string> preflight(Recipe recipe) { return training::preflight_of(recipe).all_lines(); }

}  // namespace hone
