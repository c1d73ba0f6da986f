// Answers to a step's prompts.
#include "objectives/rollouts.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/strings.h"
#include "data/choose_template.h"
#include "hone/random.h"
#include "hone/world.h"
#include "objectives/document_parts.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

constexpr std::int64_t kNoLabel = -100;

GenerateConfig config_of(const SamplingOptions& options, const StepContext& context, std::int64_t answers) {
  GenerateConfig config;
  config.max_new_tokens = options.max_completion_length;
  config.temperature = options.temperature;
  config.top_p = options.top_p, config.top_k = options.top_k, config.min_p = options.min_p;
  config.repetition_penalty = options.repetition_penalty;
  config.stop = options.stop, config.regex = options.regex;
  config.eos_token_id = data::ends_of_answers(*context.tokenizer);
  config.batch_size = options.generation_batch_size.value_or(std::max<std::int64_t>(1, answers));
  return config;
}

HostDoc document_of(const Asked& asked, const Answer& answer, std::int64_t group, bool left_out) {
  HostDoc doc{.ids = {asked.ids.begin(), asked.ids.end()}, .targets = {}, .record = asked.record};
  doc.role = Role::answer;
  doc.group = group;
  doc.ids.insert(doc.ids.end(), answer.ids.begin(), answer.ids.end());
  doc.targets.assign(doc.ids.size(), kNoLabel);
  if (left_out) return doc;
  const std::size_t begin = asked.ids.size();
  for (std::size_t i = begin; i < doc.ids.size(); ++i)
    if (answer.heard.empty() || !answer.heard[i - begin]) doc.targets[i - 1] = doc.ids[i];
  return doc;
}

}  // namespace

std::vector<Asked> asked_by(const Batch& batch, const Tokenizer& tokenizer) {
  const PartedDocuments documents(batch);
  std::vector<Asked> all;
  for (std::size_t i = 0; i < batch.docs.size(); ++i) {
    const auto [prompt, answer] = documents.of(i);
    Asked one{{prompt.begin(), prompt.end()}, "", {answer.ids.begin(), answer.ids.end()}, batch.docs[i].record};
    if (!answer.ids.empty()) one.reference = trim(tokenizer.decode(one.reference_ids, /*skip_special=*/false));
    all.push_back(std::move(one));
  }
  return all;
}

SeedOfAnswer seeds_of_step(const Group& group, const StepContext& context, std::int64_t draw) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;  // of each prompt: its micro-batch, its number there
  for (std::size_t i = 0; i < group.size(); ++i)
    for (std::size_t d = 0; d < group[i].docs.size(); ++d)
      places.emplace_back(
          i * static_cast<std::size_t>(context.world.size()) + static_cast<std::size_t>(context.world.rank()), d);
  const std::string again = draw == 0 ? "" : fmt::format("/{}", draw);
  const Random random(context.seed, fmt::format("rollout/{}{}", context.step, again));
  return [places, random](std::size_t prompt, std::int64_t which) {
    const auto& [batch, doc] = places[prompt];
    return random.bits((batch << 40) + (doc << 16) + static_cast<std::uint64_t>(which));
  };
}

SeedOfAnswer seeds_of_evaluation(const Batch& batch, const StepContext& context) {
  std::vector<std::uint64_t> records;
  for (const Doc& doc : batch.docs) records.push_back(static_cast<std::uint64_t>(doc.record));
  const Random random(context.seed, "rollout/evaluation");
  return [records, random](std::size_t prompt, std::int64_t which) {
    return random.bits((records[prompt] << 16) + static_cast<std::uint64_t>(which));
  };
}

std::vector<Generated> sample(const std::vector<Asked>& asked, std::int64_t each, const SeedOfAnswer& seed,
                              const SamplingOptions& options, const StepContext& context) {
  return sample_by({{context.model}}, asked, each, seed, options, context);
}

std::vector<Generated> sample_by(const Speaker& speaker, const std::vector<Asked>& asked, std::int64_t each,
                                 const SeedOfAnswer& seed, const SamplingOptions& options,
                                 const StepContext& context) {
  std::vector<Draw> draws;
  for (std::size_t p = 0; p < asked.size(); ++p)
    for (std::int64_t which = 0; which < each; ++which)
      draws.push_back({asked[p].ids, seed(p, which), options.max_completion_length});
  return draw(*generator_of(speaker, context), draws, options, context);
}

std::unique_ptr<Generator> generator_of(const Speaker& speaker, const StepContext& context) {
  auto generator = std::make_unique<Generator>(speaker.model.model, context.tokenizer);
  if (speaker.model.adapter != kDefaultAdapter) generator->use_adapter(speaker.model.adapter);
  if (speaker.other) generator->mix_with(speaker.other->model, speaker.other->adapter, speaker.share);
  generator->be_silent();  // the run has said what its lengths lead to
  return generator;
}

std::vector<Generated> draw(Generator& generator, const std::vector<Draw>& draws, const SamplingOptions& options,
                            const StepContext& context) {
  std::vector<std::vector<std::int32_t>> texts;
  std::vector<std::uint64_t> seeds;
  std::vector<std::int64_t> most;
  for (const Draw& one : draws) texts.push_back(one.ids), seeds.push_back(one.seed), most.push_back(one.most);
  return generator.generate(texts, config_of(options, context, std::ssize(texts)), {}, {}, seeds, most);
}

Answered answered_by(const Answering& answer, const Group& group, std::int64_t each, const SeedOfAnswer& seed,
                     const StepContext& context) {
  Answered made;
  Rollout& rollout = made.rollout;
  rollout.each = each;
  for (const Batch& batch : group) {
    std::vector<Asked> asked = asked_by(batch, *context.tokenizer);
    const std::size_t before = rollout.asked.size();
    const auto own = [&](std::size_t prompt, std::int64_t which) { return seed(before + prompt, which); };
    std::vector<GivenAnswer> given = during("answering prompts", [&] { return answer(asked, own); });
    HONE_ASSERT(given.size() == asked.size() * static_cast<std::size_t>(each));
    rollout.prompts.push_back(asked.size());
    std::move(asked.begin(), asked.end(), std::back_inserter(rollout.asked));
    std::move(given.begin(), given.end(), std::back_inserter(made.given));
  }
  return made;
}

void take_answers(Rollout& rollout, std::vector<GivenAnswer>& given, const StepContext& context) {
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Asked& asked = rollout.of(i);
    GivenAnswer& one = given[i];
    rollout.answers.push_back({.prompt = context.tokenizer->decode(asked.ids, /*skip_special=*/false),
                               .text = std::move(one.text),
                               .reference = asked.reference,
                               .prompt_ids = asked.ids,
                               .ids = std::move(one.ids),
                               .complete = one.is_complete(),
                               .record = context.record_name(asked.record),
                               .heard = std::move(one.heard),
                               .messages = std::move(one.messages),
                               .outcome = one.outcome});
  }
}

std::int64_t count_said(const Answer& answer) {
  return std::ssize(answer.ids) - std::count(answer.heard.begin(), answer.heard.end(), true);
}

Group learnt_from(const Rollout& rollout, const std::map<std::string, std::vector<double>>& by_answer,
                  const std::vector<bool>& left_out) {
  Group group;
  std::size_t answer = 0;
  for (const std::size_t prompts : rollout.prompts) {
    std::vector<HostRow> rows;
    const std::size_t first = answer;
    for (std::size_t p = 0; p < prompts; ++p) {
      HostRow row;
      for (std::int64_t i = 0; i < rollout.each; ++i, ++answer)
        row.push_back(document_of(rollout.of(answer), rollout.answers[answer], std::ssize(rows), left_out[answer]));
      rows.push_back(std::move(row));
    }
    Batch batch = to_batch(pad(rows, /*pad_id=*/0));
    for (const auto& [name, values] : by_answer) {
      const std::vector<double> own(values.begin() + static_cast<std::ptrdiff_t>(first),
                                    values.begin() + static_cast<std::ptrdiff_t>(answer));
      batch.extra[name] = host::tensor_of(own, {std::ssize(own)});
    }
    group.push_back(std::move(batch));
  }
  return group;
}

}  // namespace hone::objectives
