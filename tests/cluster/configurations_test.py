"""Every cluster configuration and the network template as they are, and together: no finding of anybody's."""
import unittest

import rules
import tools
from account import FOLDER, Account, render

QUEUES = render.queue_names()


class Configurations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.account = Account().__enter__()
        cls.addClassCleanup(cls.account.__exit__)

    def check(self, *queues, **settings):
        text = self.account.rendered(*queues, **settings)
        self.assertNotIn("${", "".join(line for line in text.splitlines(True) if not line.startswith("#")))
        self.assertEqual(self.account.findings(text), [])
        self.assertEqual(list(rules.cluster(text)), [])

    def test_every_queue_alone_is_accepted_by_aws_parallelcluster(self):
        self.assertEqual(QUEUES, ["p4d", "p5", "p5_block", "p5en", "p6_b200", "smoke"])
        for queue in QUEUES:
            with self.subTest(queue):
                self.check(queue)

    def test_all_queues_fit_into_one_cluster(self):
        self.check(*QUEUES)

    def test_monitoring_is_accepted(self):
        self.check("smoke", monitoring="v2.10", monitoring_sha256="0" * 64,
                   monitoring_policy="arn:aws:iam::aws:policy/CloudWatchReadOnlyAccess")

    def test_the_network_has_no_finding_of_cfn_lint(self):
        text = (FOLDER / "network.yaml").read_text()
        self.assertEqual(tools.cloudformation(text), [])
        self.assertEqual(list(rules.network(text)), [])

    def test_outputs_of_the_network_are_what_render_reads(self):
        outputs = {output["OutputKey"] for output in self.account.stack["Stacks"][0]["Outputs"]}
        self.assertLessEqual(set(render.STACK_OUTPUTS), outputs)

    def test_nodes_are_in_the_private_subnet_and_the_head_node_in_the_public_one(self):
        text = self.account.rendered("p5")
        self.assertIn(f"SubnetId: {self.account.ids['PublicSubnet']}\n", text)
        self.assertIn(f"SubnetIds: [{self.account.ids['PrivateSubnet']}]\n", text)


if __name__ == "__main__":
    unittest.main()
