// What the first steps of a run have that later ones have not: smaller batches, shorter documents.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/step_sizes.h"
#include "hone/recipe.h"

namespace hone::training {

// trainer.batch_warmup, each stage that grows cut into those of one size. REQUIRES: check_step_plan() found nothing.
std::vector<Loader::Stage> batch_stages(const TrainerSection& trainer);
data::StepSizes step_sizes(const TrainerSection& trainer);

// data.length_warmup: tokens that a document has at most in the step behind `step` others; empty: there is none.
std::function<std::int64_t(std::int64_t step)> longest_documents(const DataSection& data);

// "trainer.batch_warmup: 4 rows a step, 8 after 100 steps", and the like for documents; none where there is no warm-up.
std::vector<std::string> step_plan_lines(const Recipe& recipe);

void check_step_plan(const Recipe& recipe, Problems& problems);
void check_step_plan_fits(const Recipe& recipe, std::int64_t steps, Problems& problems);  // so many steps

}  // namespace hone::training
