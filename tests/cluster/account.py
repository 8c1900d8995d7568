"""An AWS account that exists in this process only (moto). Its network is the stack of network.yaml, its capacity block and
bucket are those that the tests' parameters name, and cluster configurations are judged in it by aws-parallelcluster's own
schema and validators. Reaches no network, needs no credentials.

What moto cannot do is done here: it creates no security group egress rules and no FSx file systems (both are taken from
the template), and knows no capacity reservations.
"""
import importlib
import logging
import os
import pathlib
import sys
import types
import warnings

REGION, ZONE = "us-east-2", "us-east-2a"
FILE_SYSTEM, BLOCK, KEY, BUCKET = "fs-0123456789abcdef0", "cr-0123456789abcdef0", "me", "echelon-tests"
BLOCK_NODES = 8
TOP = pathlib.Path(__file__).resolve().parents[2]
FOLDER = TOP / "cluster" / "parallelcluster"

os.environ.update(AWS_ACCESS_KEY_ID="testing", AWS_SECRET_ACCESS_KEY="testing", AWS_DEFAULT_REGION=REGION,
                  AWS_EC2_METADATA_DISABLED="true")
AWS_POLICIES = "MOTO_IAM_LOAD_MANAGED_POLICIES"  # takes moto half a second each time it starts afresh, so only while needed


def leave_out_api_gateway_checks():
    """moto's CloudFormation loads its API Gateway, which wants a validator of OpenAPI files that nothing here uses."""
    for name in ("openapi_spec_validator", "openapi_spec_validator.validation",
                 "openapi_spec_validator.validation.exceptions"):
        module = types.ModuleType(name)
        module.__getattr__ = lambda attribute: type(attribute, (Exception,), {})
        sys.modules.setdefault(name, module)


leave_out_api_gateway_checks()
for name in ("moto", "pcluster"):  # both tell of what moto does not know
    logging.getLogger(name).setLevel(logging.CRITICAL)
sys.path.insert(0, str(FOLDER))

import boto3  # noqa: E402
import moto  # noqa: E402
from moto.ec2.models.amis import AMIS  # noqa: E402
from cfnlint.decode import cfn_yaml  # noqa: E402
from marshmallow import ValidationError  # noqa: E402
from pcluster.aws.aws_api import AWSApi  # noqa: E402
from pcluster.aws.aws_resources import CapacityReservationInfo, FsxStorageInfo  # noqa: E402
from pcluster.aws.common import AWSClientError  # noqa: E402
from pcluster.aws.ec2 import Ec2Client  # noqa: E402
from pcluster.aws.fsx import FSxClient  # noqa: E402
from pcluster.schemas.cluster_schema import ClusterSchema  # noqa: E402
from pcluster.utils import yaml_load  # noqa: E402
from pcluster.validators.common import ValidatorContext  # noqa: E402

render = importlib.import_module("render")

PARAMETERS = {"key_name": KEY, "allowed_ips": "198.51.100.7/32", "bucket": BUCKET, "nodes": "8"}

# Findings that say something about moto, not about the configuration: (validator, part of its text).
ABOUT_MOTO = [("HeadNodeLaunchTemplateValidator", "must contain the parameter ebs"),
              ("ComputeResourceLaunchTemplateValidator", "must contain the parameter ebs"),
              ("KeyPairValidator", "'KeyType'")]


def existing(things, ids):
    """Those of `things` with these ids; as AWS does, refuses all when one does not exist."""
    for name in ids:
        if name not in things:
            raise AWSClientError("describe", f"{name} does not exist")
    return [things[name] for name in ids]


class Account:
    """`with Account() as account:`; network.yaml's text can be another one, to see what a fault in it does."""

    def __init__(self, network=None):
        self.network = network or (FOLDER / "network.yaml").read_text()
        self.mock = moto.mock_aws()

    def __enter__(self):
        self.mock.start()
        os.environ[AWS_POLICIES] = "true"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the resource types moto does not know
            self.stack = self.create_network()
        self.create_rest()
        AWSApi.reset()
        self.answer_for_moto()
        return self

    def __exit__(self, *_):
        del os.environ[AWS_POLICIES]
        self.mock.stop()

    def create_network(self):
        """Creates the stack; returns what `aws cloudformation describe-stacks` would print for it."""
        formation = boto3.client("cloudformation")
        formation.create_stack(StackName="network", TemplateBody=self.network,
                               Parameters=[{"ParameterKey": "AvailabilityZone", "ParameterValue": ZONE}])
        described = formation.describe_stacks(StackName="network")
        stack = described["Stacks"][0]
        if stack["StackStatus"] != "CREATE_COMPLETE":
            raise RuntimeError(f"moto did not create the network: {stack['StackStatus']}")
        self.ids = {resource["LogicalResourceId"]: resource.get("PhysicalResourceId")
                    for resource in formation.describe_stack_resources(StackName="network")["StackResources"]
                    if "LogicalResourceId" in resource}
        template = cfn_yaml.loads(self.network)
        ec2 = boto3.client("ec2")
        for resource in template["Resources"].values():
            if resource["Type"] == "AWS::EC2::SecurityGroupEgress":
                rule = resource["Properties"]
                target = {"GroupId": self.id_of(rule["DestinationSecurityGroupId"])}
                ec2.authorize_security_group_egress(
                    GroupId=self.id_of(rule["GroupId"]),
                    IpPermissions=[{"IpProtocol": rule["IpProtocol"], "UserIdGroupPairs": [target]}])
            if resource["Type"] == "AWS::FSx::FileSystem":
                self.create_file_system(ec2, resource["Properties"])
        stack["Outputs"] = [output for output in stack["Outputs"] if output["OutputKey"] != "FileSystem"]
        stack["Outputs"].append({"OutputKey": "FileSystem", "OutputValue": FILE_SYSTEM})
        return {"Stacks": [{"StackName": "network", "Outputs": stack["Outputs"]}]}

    def id_of(self, reference):
        return self.ids[reference["Ref"]]

    def create_file_system(self, ec2, properties):
        """As the rest of AWS sees one: a network interface in its subnet with its security groups."""
        subnet = self.id_of(properties["SubnetIds"][0])
        groups = [self.id_of(group) for group in properties["SecurityGroupIds"]]
        interface = ec2.create_network_interface(SubnetId=subnet, Groups=groups)["NetworkInterface"]
        self.file_system = FsxStorageInfo({
            "FileSystemId": FILE_SYSTEM, "FileSystemType": "LUSTRE", "VpcId": interface["VpcId"],
            "NetworkInterfaceIds": [interface["NetworkInterfaceId"]], "SubnetIds": [subnet],
            "DNSName": f"{FILE_SYSTEM}.fsx.{REGION}.amazonaws.com", "LustreConfiguration": {"MountName": "abcdefgh"}})

    def create_rest(self):
        boto3.client("ec2").create_key_pair(KeyName=KEY, KeyType="ed25519")
        s3 = boto3.client("s3")
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        for path in (render.SETUP, render.EXPORTER):
            name = render.upload_name(path, BUCKET).removeprefix(f"s3://{BUCKET}/")
            s3.put_object(Bucket=BUCKET, Key=name, Body=path.read_bytes())

    def answer_for_moto(self):
        image = AMIS[0]["ami_id"]
        block = CapacityReservationInfo({
            "CapacityReservationId": BLOCK, "InstanceType": "p5.48xlarge", "AvailabilityZone": ZONE,
            "ReservationType": "capacity-block", "TotalInstanceCount": BLOCK_NODES, "AvailableInstanceCount": BLOCK_NODES,
            "State": "active", "InstancePlatform": "Linux/UNIX", "Tenancy": "default",
            "CapacityReservationArn": f"arn:aws:ec2:{REGION}:123456789012:capacity-reservation/{BLOCK}"})
        file_system = self.file_system
        Ec2Client.get_official_image_id = lambda *_, **__: image
        Ec2Client.describe_capacity_reservations = lambda _, ids: existing({BLOCK: block}, ids)
        FSxClient.get_file_systems_info = lambda _, ids: existing({FILE_SYSTEM: file_system}, ids)

    def rendered(self, *queues, **settings):
        """The configuration render.py makes from this account's stack."""
        outputs = {output["OutputKey"]: output["OutputValue"] for output in self.stack["Stacks"][0]["Outputs"]}
        values = {name: outputs[key] for key, name in render.STACK_OUTPUTS.items()} | PARAMETERS | settings
        values.setdefault("capacity_reservation", BLOCK)
        text, faults = render.render(queues, values)
        unused = [fault.partition(" ")[0] for fault in faults if fault.endswith("none of the queues uses it")]
        if unused:
            text, faults = render.render(queues, {name: values[name] for name in values if name not in unused})
        if faults:
            raise ValueError("\n".join(faults))
        return text

    def findings(self, text):
        """What aws-parallelcluster has to say about a configuration, a line each; warnings are findings."""
        try:
            configuration = ClusterSchema(cluster_name="echelon").load(yaml_load(text))
        except ValidationError as error:
            return [f"ERROR Schema: {error.messages}"]
        try:
            found = configuration.validate(context=ValidatorContext())
        except AWSClientError as error:
            return [f"ERROR {error}"]
        return [f"{one.level.name} {one.validator_type}: {one.message}" for one in found
                if one.level.name != "INFO" and not any(one.validator_type == validator and part in one.message
                                                        for validator, part in ABOUT_MOTO)]
