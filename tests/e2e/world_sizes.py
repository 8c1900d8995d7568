"""The same recipe trains the same model, however many ranks there are and however the shards travel."""
import product

SAME_BITS = [  # settings that must not change a single bit
    ("gathered weights kept", ["shard.reshard_after_forward=false"]),
    ("no forward prefetch", ["shard.forward_prefetch=0"]),
    ("two units ahead", ["shard.forward_prefetch=2"]),
    ("backward prefetch post", ["shard.backward_prefetch=post"]),
    ("backward prefetch none", ["shard.backward_prefetch=none"]),
    ("nothing ahead, all kept", ["shard.forward_prefetch=0", "shard.backward_prefetch=none",
                                 "shard.reshard_after_forward=false"]),
]


class Tests(product.Case):
    def run_of(self, name, *overrides, ranks=1, steps=20):
        """Trains into the folder `name`; returns the losses as texts."""
        self.train(self.recipe(), f"run.dir={name}", f"train.steps={steps}", *overrides, ranks=ranks)
        return self.losses(name, steps)

    def losses_over_world_sizes(self, *overrides):
        expected = self.run_of("ranks-1", *overrides)
        self.assertLess(float(expected[-1]), float(expected[0]) - 0.05, "the model must have learnt something")
        for ranks in (2, 3, 4):
            self.assert_close(expected, self.run_of(f"ranks-{ranks}", *overrides, ranks=ranks))

    def test_losses_agree_on_1_to_4_ranks(self):
        self.losses_over_world_sizes()

    def test_losses_agree_with_tied_embeddings(self):
        self.losses_over_world_sizes("model.tie_embeddings=true")

    def test_losses_agree_with_the_model_as_one_unit(self):
        self.losses_over_world_sizes("shard.wrap.policy=none")

    def test_one_unit_computes_what_a_unit_per_layer_does(self):
        self.assert_close(self.run_of("layers", ranks=3), self.run_of("whole", "shard.wrap.policy=none", ranks=3))

    def test_initial_weights_are_the_same_bytes_on_1_to_4_ranks(self):
        # An update too small to change any fp32 weight leaves the initial ones in the first checkpoint.
        frozen = ["optim.lr=1e-30", "optim.weight_decay=0", *product.ALWAYS_CONSTANT]
        for tied in ("false", "true"):
            weights = {}
            for ranks in (1, 2, 3, 4):
                name = f"{tied}-{ranks}"
                self.run_of(name, f"model.tie_embeddings={tied}", *frozen, ranks=ranks, steps=1)
                weights[ranks] = self.weights(name)
            self.run_of(f"{tied}-two", f"model.tie_embeddings={tied}", *frozen, ranks=2, steps=2)
            self.assertEqual(weights[1], self.weights(f"{tied}-two"), "the weights did not stay the initial ones")
            for ranks in (2, 3, 4):
                self.assertEqual(weights[1], weights[ranks], f"weights of 1 and {ranks} ranks")
        self.run_of("seed", *frozen, "run.seed=8", steps=1)
        self.assertNotEqual(self.weights("seed"), self.weights("false-1"), "another seed, other weights")

    def same_bits(self, *overrides):
        expected = self.run_of("expected", *overrides, ranks=2, steps=8)
        self.assertEqual(expected, self.run_of("again", *overrides, ranks=2, steps=8))
        weights = self.weights("expected")
        for what, settings in SAME_BITS:
            name = what.replace(" ", "-").replace(",", "")
            self.assertEqual(expected, self.run_of(name, *overrides, *settings, ranks=2, steps=8), what)
            self.assertEqual(weights, self.weights(name), what)

    def test_prefetch_and_reshard_change_no_bit_in_fp32(self):
        self.same_bits()

    def test_prefetch_and_reshard_change_no_bit_in_bf16(self):
        self.same_bits("precision.param=bf16", "precision.buffer=bf16")

    def test_bf16_stays_near_fp32(self):
        exact = self.run_of("fp32", ranks=2)
        rounded = self.run_of("bf16", "precision.param=bf16", "precision.buffer=bf16", ranks=2)
        self.assertNotEqual(exact, rounded)
        self.assert_close(exact, rounded, relative=0.01)

    def test_gradient_accumulation_changes_nothing(self):
        expected = self.run_of("micro-1", ranks=2)
        for micro in (2, 3, 6):
            self.assert_close(expected, self.run_of(f"micro-{micro}", f"train.micro_batch_size={micro}", ranks=2))


if __name__ == "__main__":
    product.main()
